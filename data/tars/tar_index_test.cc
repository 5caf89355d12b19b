#include "data/tars/tar_index.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "data/tars/file_part.h"
#include "data/testing/tar_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

class TarIndexTest : public testing::Test {
 protected:
  absl::StatusOr<TarIndex> Index(const std::string& bytes, const TarLimits& limits = {}) {
    EXPECT_TRUE(WriteFileAtomically(path_, bytes).ok());
    return ReadTarIndex(path_, limits);
  }
  std::string ErrorOf(const std::string& bytes, const TarLimits& limits = {}) {
    const auto index = Index(bytes, limits);
    if (!index.ok()) return index.status().ToString();
    return index->damage.empty() ? "no error" : index->damage;
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
    const auto index = ReadTarIndex(path);
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ(index->damage, "");
    EXPECT_EQ(index->rest, "");
    EXPECT_EQ(index->num_links, index->members.size());
    const std::vector<TarMember>* members = &index->members;
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
  const auto index = Index(tar);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->members[0].size, 5);
  EXPECT_EQ(index->members[0].offset, 512);
}

TEST_F(TarIndexTest, DamageIsNamedWithItsPlace) {
  const std::string good = MakeTar({{"a.jpg", std::string(700, 'x')}, {"b.jpg", "y"}});
  ASSERT_EQ(Index(good)->members.size(), 2u);
  EXPECT_EQ(ErrorOf(good), "no error");
  const auto expect = [&](const std::string& bytes, size_t num_members, const std::string& error) {
    EXPECT_THAT(ErrorOf(bytes), HasSubstr(error));
    const auto index = Index(bytes);
    EXPECT_EQ(index.ok() ? index->members.size() : 0, num_members) << error;
  };
  // The truncated member is the last one.
  expect(good.substr(0, 1000), 1,
         "at byte 0 of 1000: member a.jpg of 700 bytes extends past the end of the file, which is "
         "truncated");
  expect(good.substr(0, 1536), 1,
         "at byte 1536 of 1536: the file ends without an end mark; it may be truncated");
  expect(good.substr(0, 1600), 1, "at byte 1536 of 1600: the file ends without an end mark");
  expect(good.substr(0, 2048), 2, "at byte 1536 of 2048: member b.jpg of 1 bytes extends past");
  EXPECT_EQ(ErrorOf(good.substr(0, good.size() - 512)), "no error")
      << "one block of zeros is enough";
  std::string flipped = good;
  flipped[1540] ^= 1;
  expect(flipped, 1, "at byte 1536 of 3584: the header's checksum is wrong");
  EXPECT_EQ(ReadTarIndex("/no/such.tar").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TarIndexTest, FilesThatAreNotTarAreNamed) {
  std::string flipped = MakeTar({{"a.jpg", "x"}});
  flipped[3] ^= 1;
  const std::pair<std::string, const char*> cases[] = {
      {"", "made.tar: not a tar archive but an empty file: its content is missing"},
      {MakeTar({{"a", "b"}}).substr(0, 300), "made.tar: at byte 0 of 300: truncated"},
      {flipped, "made.tar: at byte 0 of 2048: the header's checksum is wrong"},
      {std::string(2000, 'z'), "made.tar: not a tar archive but plain text"},
      {"version https://git-lfs.github.com/spec/v1\n",
       "made.tar: not a tar archive but a Git LFS pointer: the file itself was not downloaded"}};
  for (const auto& [bytes, expected] : cases) {
    EXPECT_EQ(Index(bytes).status().code(), absl::StatusCode::kInvalidArgument) << expected;
    EXPECT_THAT(ErrorOf(bytes), HasSubstr(expected));
  }
  EXPECT_EQ(Index(std::string(10240, '\0'))->members.size(), 0u);
  ASSERT_EQ(mkfifo((path_ + ".pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadTarIndex(path_ + ".pipe").status().message()),
              HasSubstr("not a regular file"));
  unlink((path_ + ".pipe").c_str());
}

TEST_F(TarIndexTest, JoinedArchivesAreReadToTheLast) {
  const std::string one = MakeTar({{"a.jpg", "1"}, {"b.jpg", "2"}}),
                    two = MakeTar({{"a.jpg", "3"}});
  const std::string padding(8192, '\0');
  const auto index = Index(one + padding + two + two);
  ASSERT_TRUE(index.ok()) << index.status();
  std::vector<std::string> found;
  for (const TarMember& member : index->members) {
    found.push_back(absl::StrCat(member.archive, " ", member.name, " ",
                                 ReadFilePart(path_, member.offset, member.size).value()));
  }
  EXPECT_THAT(found, testing::ElementsAre("0 a.jpg 1", "0 b.jpg 2", "1 a.jpg 3", "2 a.jpg 3"));
  EXPECT_EQ(index->damage, "");
  EXPECT_EQ(index->rest, "");
  // The second archive is truncated.
  EXPECT_THAT(ErrorOf(one + two.substr(0, 512)), HasSubstr("at byte 3072 of 3584: member a.jpg"));
}

TEST_F(TarIndexTest, DataAfterTheEndMarkIsReported) {
  const std::string tar = MakeTar({{"a.jpg", "1"}});
  EXPECT_EQ(Index(tar + std::string(5000, '\0'))->rest, "");
  for (const std::string& rest : {std::string("x"), std::string(5000, 'x')}) {
    const auto index = Index(tar + rest);
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ(index->members.size(), 1u);
    EXPECT_EQ(index->damage, "");
    EXPECT_THAT(index->rest, HasSubstr(absl::StrCat("made.tar: ", rest.size(),
                                                    " bytes from byte 2048, after the "
                                                    "end mark, are not an archive")));
  }
  // Zeros are padding up to a limit.
  TarLimits limits;
  limits.max_padding_bytes = 4096;
  EXPECT_EQ(Index(tar + std::string(2048, '\0') + tar, limits)->members.size(), 2u);
  const auto index = Index(tar + std::string(8192, '\0') + tar, limits);
  EXPECT_EQ(index->members.size(), 1u);
  EXPECT_THAT(index->rest, HasSubstr("made.tar: "));
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
    EXPECT_THAT(ErrorOf(tar), HasSubstr("made.tar: at byte 0 of "));
  }
  const std::string end(1024, '\0');
  for (const char* record : {"20 size=99999999999\n", "14 size=-50000\n", "5 path=x\n", "9 path=x",
                             "7 nopath\n", "99999999999 path=x\n", "x path=x\n", "3 \n"}) {
    EXPECT_THAT(ErrorOf(TarEntry("h", record, 'x') + TarEntry("a", "b") + end),
                HasSubstr("made.tar: at byte "))
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
  const auto index = Index(tar);
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->members.size(), 1u);
  EXPECT_EQ(index->num_links, 2);
  EXPECT_EQ(index->members[0].name, "../../etc/passwd");  // a name that nobody opens
  EXPECT_THAT(ErrorOf(TarEntry("s", "x", 'S') + tar), HasSubstr("UNIMPLEMENTED"));
}

TEST_F(TarIndexTest, PartsOutsideTheFileAreErrors) {
  Index(MakeTar({{"a", "12345"}})).status().IgnoreError();
  EXPECT_EQ(ReadFilePart(path_, 512, 5).value(), "12345");
  EXPECT_FALSE(ReadFilePart(path_, 512, 5000).ok());
  EXPECT_FALSE(ReadFilePart(path_, -1, 2).ok());
  EXPECT_FALSE(ReadFilePart(path_, int64_t{1} << 62, int64_t{1} << 62).ok());
}

TEST_F(TarIndexTest, CompressedFilesAreNamed) {
  for (const size_t size : {4, 600}) {
    std::string bytes(size, 'x');
    EXPECT_THAT(ErrorOf(bytes.replace(0, 2, "\x1f\x8b")),
                HasSubstr("made.tar: compressed by gzip, which allows no random access; unpack it "
                          "to a .tar first: gzip -d -k " +
                          path_));
    EXPECT_THAT(ErrorOf(bytes.replace(0, 4, "\x28\xb5\x2f\xfd")), HasSubstr("by zstd"));
  }
}

}  // namespace
}  // namespace dpipe
