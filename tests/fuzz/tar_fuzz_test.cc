// Damaged tar shards, patterns, captions, metadata.jsonl, metadata.csv and quarantine logs.
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "data/captions/caption_text.h"
#include "data/folders/folder_dataset.h"
#include "data/quarantine_log.h"
#include "data/tars/shard_pattern.h"
#include "data/tars/tar_dataset.h"
#include "data/testing/tar_for_test.h"
#include "gtest/gtest.h"
#include "tests/fuzz/mutation.h"

namespace dpipe {
namespace {

// Does not flush, because thousands of flushes would take minutes on some disks.
void WriteQuickly(const std::string& path, const std::string& content) {
  FILE* file = fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(fwrite(content.data(), 1, content.size(), file), content.size());
  fclose(file);
}

fuzz::Material Tars() {
  fuzz::Material material;
  for (const char* name : {"ustar", "gnu", "pax"}) {
    material.files.push_back(ReadFile(absl::StrCat("data/testdata/", name, ".tar")).value());
  }
  const std::string png = ReadFile("data/testdata/color.png").value();
  for (int i = 0; i < 3; ++i) {
    material.files.push_back(MakeTar({{"0.png", png},
                                      {"0.txt", "a caption"},
                                      {"1.jpg", png},
                                      {"1.json", "{\"caption\": \"another\"}"},
                                      {"1.cond.png", png}}));
  }
  material.files.push_back(MakeTar({{"x/22.05.png", png},
                                    {"x/22.05.txt", "five"},
                                    {"x/22.06.cond.png", png},
                                    {"x/22.06.webp", png},
                                    {"x/22.txt", std::string("\xff\xfe"
                                                             "a\0\x3d\xd8",
                                                             6)}}));
  material.tokens = {"ustar", "ustar  ", "path=", "size=", "30 path=", std::string(512, '\0'),
                     "../",   "x",       "L",     ".",     "..",       ".05.png"};
  return material;
}

// Corrects the checksum of every block that looks like a header.
void FixTarChecksums(std::string* tar) {
  for (size_t at = 0; at + 512 <= tar->size(); at += 512) {
    if (tar->compare(at + 257, 5, "ustar") == 0) FixTarChecksum(tar, at);
  }
}

TEST(TarFuzzTest, DamagedShardsAreRefusedOrRead) {
  const fuzz::Material material = Tars();
  const ScratchFolder scratch(ScratchFolder::Place::kMemory);
  const std::string path = scratch.path() + "/shard.tar";
  int64_t num_opened = 0, num_joined = 0;
  const int64_t num_iterations = fuzz::NumIterations(3000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(42, i, 0, RandomPurpose::kTest);
    std::string bytes = fuzz::DamagedFile(random, material);
    if (random.NextBelow(4) == 0) {
      bytes.resize((bytes.size() + 511) / 512 * 512);
      bytes += fuzz::DamagedFile(random, material);  // joined
    }
    if (random.NextBelow(8) != 0) FixTarChecksums(&bytes);
    ASSERT_NO_FATAL_FAILURE(WriteQuickly(path, bytes));
    const auto index = ReadTarIndex(path);
    if (!index.ok()) {
      ASSERT_TRUE(absl::StrContains(index.status().message(), path)) << index.status();
    } else {
      for (size_t m = 0; m < index->members.size(); ++m) {
        const TarMember& member = index->members[m];
        ASSERT_GE(member.offset, 512);
        ASSERT_GE(member.size, 0);
        ASSERT_LE(member.offset, static_cast<int64_t>(bytes.size()));
        // Only the last member may be truncated, and then the damage says so.
        if (member.size <= static_cast<int64_t>(bytes.size()) - member.offset) continue;
        ASSERT_EQ(m, index->members.size() - 1);
        ASSERT_TRUE(absl::StrContains(index->damage, "extends past the end of the file"))
            << index->damage;
      }
      num_joined += !index->members.empty() && index->members.back().archive > 0;
    }
    const auto dataset = TarDataset::Open(path);
    if (!dataset.ok()) {
      ASSERT_TRUE(absl::StrContains(dataset.status().message(), path)) << dataset.status();
      continue;
    }
    ++num_opened;
    for (int32_t sample = 0; sample < (*dataset)->size(); ++sample) {
      ASSERT_TRUE(absl::StrContains((*dataset)->image_path(sample), path));
      (*dataset)->LoadImage(sample).status().IgnoreError();
      (*dataset)->LoadImageSize(sample).status().IgnoreError();
      (*dataset)->LoadCaptions(sample).status().IgnoreError();
      (*dataset)->LoadCondition(sample).status().IgnoreError();
    }
    for (const auto& lines : {(*dataset)->notes(), (*dataset)->findings()}) {
      for (const std::string& line : lines) ASSERT_LT(line.size(), path.size() + 400) << line;
    }
  }
  EXPECT_GT(num_opened, num_iterations / 20);
  EXPECT_GT(num_joined, 0);
  EXPECT_LT(num_opened, num_iterations);
  EXPECT_LT(fuzz::PeakMemoryMb(), fuzz::MemoryLimitMb());
}

TEST(TarFuzzTest, DamagedListsAreRefusedOrRead) {
  const ScratchFolder scratch(ScratchFolder::Place::kMemory);
  const std::string& folder = scratch.path();
  WriteQuickly(folder + "/a.png", ReadFile("data/testdata/color.png").value());
  fuzz::Material material;
  material.files = {
      "{\"file_name\": \"a.png\", \"text\": \"x\"}\n{\"file_name\": \"a.png\", \"text\": \"y\", "
      "\"conditioning_image\": \"a.png\"}\n",
      "{\"path\": \"a.png\", \"reason\": \"x\"}\n{\"path\": \"b.png\", \"reason\": \"y\"}\n"};
  material.tokens = {"{",
                     "}",
                     "[",
                     "]",
                     "\"",
                     "null",
                     "\\u0000",
                     "\\ud800",
                     "../",
                     "\n",
                     "true",
                     ",",
                     "NaN",
                     "[\"x\", \"y\"]",
                     "..\\\\",
                     "\xff\xfe",
                     std::string(120, '['),
                     std::string(50'000, '{')};
  int64_t num_read = 0;
  const int64_t num_iterations = fuzz::NumIterations(2000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(43, i, 0, RandomPurpose::kTest);
    const std::string text = fuzz::DamagedFile(random, material);
    ASSERT_NO_FATAL_FAILURE(WriteQuickly(folder + "/metadata.jsonl", text));
    ASSERT_NO_FATAL_FAILURE(WriteQuickly(folder + "/quarantine.jsonl", text));
    const auto dataset = FolderDataset::Open(folder);
    num_read += dataset.ok();
    if (!dataset.ok()) {
      ASSERT_TRUE(absl::StrContains(dataset.status().message(), "metadata.jsonl"))
          << dataset.status();
    }
    const auto log = QuarantineLog::Open(folder + "/quarantine.jsonl");
    if (!log.ok()) {
      ASSERT_TRUE(absl::StrContains(log.status().message(), "quarantine.jsonl line"))
          << log.status();
    }
  }
  EXPECT_GT(num_read, 0);
  EXPECT_LT(num_read, num_iterations);
}

// Every byte sequence is a valid caption, which becomes UTF-8.
TEST(TarFuzzTest, CaptionsInAnyEncodingBecomeUtf8) {
  const auto utf16 = [](std::u16string_view text, bool is_big_endian) {
    std::string bytes;
    for (const char16_t unit : text) {
      const char low = static_cast<char>(unit & 0xff), high = static_cast<char>(unit >> 8);
      bytes += is_big_endian ? std::string{high, low} : std::string{low, high};
    }
    return bytes;
  };
  const std::u16string_view text = u"\ufeffa caf\u00e9, \u20ac and \U0001f600\r\n";
  fuzz::Material material;
  material.files = {utf16(text, false), utf16(text, true),
                    "\xef\xbb\xbf"
                    "caf\u00e9 \U0001f600\r\n",
                    "a cat\x92s tail"};
  material.tokens = {"\xff\xfe", "\xfe\xff", "\xef\xbb\xbf", "\xd8\x3d", std::string("\x00\xdc", 2),
                     "\xf0\x9f", "\r\n"};
  int64_t num_utf8 = 0;
  const int64_t num_iterations = fuzz::NumIterations(20000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(48, i, 0, RandomPurpose::kTest);
    const std::string bytes = fuzz::DamagedFile(random, material);
    bool is_utf8 = false;
    const std::string caption = CaptionText(bytes, &is_utf8);
    ASSERT_TRUE(CheckUtf8(caption).ok()) << CheckUtf8(caption);
    // At most three bytes per byte, or per half of a UTF-16 unit.
    ASSERT_LE(caption.size(), 3 * bytes.size());
    num_utf8 += is_utf8;
  }
  EXPECT_GT(num_utf8, num_iterations / 20);
  EXPECT_LT(num_utf8, num_iterations);
}

TEST(TarFuzzTest, DamagedTablesAreRefusedOrRead) {
  const ScratchFolder scratch(ScratchFolder::Place::kMemory);
  const std::string& folder = scratch.path();
  WriteQuickly(folder + "/a.png", ReadFile("data/testdata/color.png").value());
  fuzz::Material material;
  material.files = {"file_name,text,other\r\na.png,\"x, \"\"y\"\"\",5\r\na.png,z,\r\n",
                    "text,file_name\n\"two\nlines\",a.png\n"};
  material.tokens = {"\"", "\"\"", ",", "\r\n", "\n", "a.png", "../", "\xef\xbb\xbf", "\xff"};
  int64_t num_read = 0;
  const int64_t num_iterations = fuzz::NumIterations(2000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(45, i, 0, RandomPurpose::kTest);
    ASSERT_NO_FATAL_FAILURE(
        WriteQuickly(folder + "/metadata.csv", fuzz::DamagedFile(random, material)));
    const auto dataset = FolderDataset::Open(folder);
    num_read += dataset.ok();
    if (!dataset.ok()) {
      ASSERT_TRUE(absl::StrContains(dataset.status().message(), "metadata.csv"))
          << dataset.status();
    }
  }
  EXPECT_GT(num_read, 0);
  EXPECT_LT(num_read, num_iterations);
}

TEST(TarFuzzTest, DamagedPatternsAreRefusedOrBounded) {
  fuzz::Material material;
  material.files = {"/data/shard-{000..099}.tar", "{a,b{1..5}}-{x,y}/*.tar"};
  material.tokens = {"{", "}", "..", ",", "{0..9}", "{,}", "99999"};
  const int64_t num_iterations = fuzz::NumIterations(100);
  for (int64_t i = 0; i < num_iterations; ++i) {
    RandomStream random(44, i, 0, RandomPurpose::kTest);
    const auto names = ExpandBraces(fuzz::DamagedFile(random, material));
    ASSERT_TRUE(!names.ok() || names->size() <= 100'000u);
  }
}

}  // namespace
}  // namespace dpipe
