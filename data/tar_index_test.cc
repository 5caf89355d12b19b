#include "data/tar_index.h"

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "data/file_part.h"
#include "data/tar_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

class TarIndexTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<TarMember>> Index(const std::string& bytes,
                                               const TarLimits& limits = {}) {
    EXPECT_TRUE(WriteFileAtomically(path_, bytes).ok());
    return ReadTarIndex(path_, limits);
  }
  std::string ErrorOf(const std::string& bytes, const TarLimits& limits = {}) {
    const auto index = Index(bytes, limits);
    return index.ok() ? "no error" : index.status().ToString();
  }
  const std::string path_ = testing::TempDir() + "/made.tar";
};

// Written by Python's tarfile: see testdata/make_goldens.py.
TEST_F(TarIndexTest, ReadsWhatTarfileWrites) {
  std::string accents;
  for (int i = 0; i < 70; ++i) accents += "\xc3\xa9";
  const std::vector<std::string> names = {
      "folder/one.txt", absl::StrCat(std::string(80, 'x'), "/", std::string(90, 'y'), ".txt"),
      "empty.txt",
      absl::StrCat(std::string(90, 'a'), "/", std::string(90, 'b'), "/", accents, ".txt")};
  for (const char* format : {"ustar", "gnu", "pax"}) {
    const std::string path = absl::StrCat("data/testdata/", format, ".tar");
    const auto members = ReadTarIndex(path);
    ASSERT_TRUE(members.ok()) << members.status();
    ASSERT_EQ(members->size(), std::string(format) == "ustar" ? 3 : 4) << format;
    for (size_t i = 0; i < members->size(); ++i) {
      std::string content;
      for (int n = 0; i != 2 && n < 60; ++n) absl::StrAppend(&content, "content ", i, " ");
      EXPECT_EQ((*members)[i].name, names[i]) << format;
      EXPECT_EQ(ReadFilePart(path, (*members)[i].offset, (*members)[i].size).value(), content);
    }
  }
}

TEST_F(TarIndexTest, ReadsBase256Sizes) {
  std::string tar = MakeTar({{"a", "12345"}});
  tar.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x05", 12));
  FixTarChecksum(&tar, 0);
  const auto members = Index(tar);
  ASSERT_TRUE(members.ok()) << members.status();
  EXPECT_EQ((*members)[0].size, 5);
  EXPECT_EQ((*members)[0].offset, 512);
}

TEST_F(TarIndexTest, DamageIsNamedWithItsPlace) {
  const std::string good = MakeTar({{"a.jpg", std::string(700, 'x')}, {"b.jpg", "y"}});
  ASSERT_EQ(Index(good)->size(), 2u);
  EXPECT_THAT(ErrorOf(""), HasSubstr("made.tar: at byte 0 of 0: the file ends without an end"));
  EXPECT_THAT(ErrorOf(good.substr(0, 300)), HasSubstr("ends without an end mark"));
  EXPECT_THAT(ErrorOf(good.substr(0, 1000)),
              HasSubstr("at byte 0 of 1000: member a.jpg of 700 bytes ends past the file"));
  EXPECT_THAT(ErrorOf(good.substr(0, 1536)), HasSubstr("at byte 1536 of 1536"));
  EXPECT_TRUE(Index(good.substr(0, good.size() - 512)).ok()) << "one block of zeros will do";
  std::string flipped = good;
  flipped[3] ^= 1;
  EXPECT_THAT(ErrorOf(flipped), HasSubstr("at byte 0 of 3584: the header's checksum is wrong"));
  EXPECT_THAT(ErrorOf(std::string(2000, 'z')), HasSubstr("checksum"));
  EXPECT_EQ(ReadTarIndex("/no/such.tar").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TarIndexTest, AbsurdSizesAreRefused) {
  for (const std::string& size :
       {std::string("77777777777\0", 12), std::string("-0000000001\0", 12),
        std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12),
        std::string("\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12),
        std::string("777777777777", 12)}) {
    std::string tar = MakeTar({{"a", "12345"}});
    tar.replace(124, 12, size);
    FixTarChecksum(&tar, 0);
    EXPECT_THAT(ErrorOf(tar), HasSubstr("INVALID_ARGUMENT"));
  }
  const std::string end(1024, '\0');
  for (const char* record : {"20 size=99999999999\n", "14 size=-50000\n", "5 path=x\n", "9 path=x",
                             "7 nopath\n", "99999999999 path=x\n", "x path=x\n", "3 \n"}) {
    EXPECT_THAT(ErrorOf(TarEntry("h", record, 'x') + TarEntry("a", "b") + end),
                HasSubstr("INVALID_ARGUMENT"))
        << record;
  }
}

TEST_F(TarIndexTest, LimitsAreKept) {
  const std::string tar = MakeTar({{"a", "1"}, {"bbbb", "2"}});
  TarLimits limits;
  limits.max_members = 1;
  EXPECT_THAT(ErrorOf(tar, limits), HasSubstr("more than 1 members"));
  limits = {};
  limits.max_name_bytes = 3;
  EXPECT_THAT(ErrorOf(tar, limits), HasSubstr("a name of 4 bytes, more than the limit of 3"));
  limits = {};
  limits.max_extension_bytes = 10;
  EXPECT_THAT(ErrorOf(TarEntry("long", std::string(11, 'n'), 'L') + tar, limits),
              HasSubstr("11 bytes, more than the limit of 10"));
}

TEST_F(TarIndexTest, OnlyFilesAreMembers) {
  const std::string tar = TarEntry("folder/", "", '5') + TarEntry("old/", "") +
                          TarEntry("link", "", '2') + TarEntry("hard", "", '1') +
                          TarEntry("device", "", '3') + MakeTar({{"../../etc/passwd", "p"}});
  const auto members = Index(tar);
  ASSERT_TRUE(members.ok()) << members.status();
  ASSERT_EQ(members->size(), 1u);
  EXPECT_EQ((*members)[0].name, "../../etc/passwd");  // a name, which no one opens
  EXPECT_THAT(ErrorOf(TarEntry("s", "x", 'S') + tar), HasSubstr("UNIMPLEMENTED"));
}

TEST_F(TarIndexTest, PartsOutsideTheFileAreErrors) {
  Index(MakeTar({{"a", "12345"}})).status().IgnoreError();
  EXPECT_EQ(ReadFilePart(path_, 512, 5).value(), "12345");
  EXPECT_FALSE(ReadFilePart(path_, 512, 5000).ok());
  EXPECT_FALSE(ReadFilePart(path_, -1, 2).ok());
  EXPECT_FALSE(ReadFilePart(path_, int64_t{1} << 62, int64_t{1} << 62).ok());
}

TEST_F(TarIndexTest, CompressedFilesAreNamedSo) {
  for (const size_t size : {4, 600}) {
    std::string bytes(size, 'x');
    EXPECT_THAT(ErrorOf(bytes.replace(0, 2, "\x1f\x8b")),
                HasSubstr("made.tar: compressed by gzip, where no member can be read without those "
                          "before it; unpack it to a .tar first: gzip -d -k " +
                          path_));
    EXPECT_THAT(ErrorOf(bytes.replace(0, 4, "\x28\xb5\x2f\xfd")), HasSubstr("by zstd"));
  }
}

}  // namespace
}  // namespace dpipe
