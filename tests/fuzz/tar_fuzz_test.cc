// Damaged tar shards, patterns, metadata.jsonl, metadata.csv and quarantine logs.
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/scratch_folder.h"
#include "data/folder_dataset.h"
#include "data/quarantine_log.h"
#include "data/shard_pattern.h"
#include "data/tar_dataset.h"
#include "data/tar_for_test.h"
#include "gtest/gtest.h"
#include "tests/fuzz/mutation.h"

namespace dpipe {
namespace {

// Not flushed, as thousands of them would take minutes on some disks.
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
  material.tokens = {"ustar", "ustar  ", "path=", "size=", "30 path=", std::string(512, '\0'),
                     "../",   "x",       "L"};
  return material;
}

// Every block that looks like a header gets a right checksum.
void FixTarChecksums(std::string* tar) {
  for (size_t at = 0; at + 512 <= tar->size(); at += 512) {
    if (tar->compare(at + 257, 5, "ustar") == 0) FixTarChecksum(tar, at);
  }
}

TEST(TarFuzzTest, DamagedShardsAreRefusedOrRead) {
  const fuzz::Material material = Tars();
  const ScratchFolder scratch(ScratchFolder::Place::kMemory);
  const std::string path = scratch.path() + "/shard.tar";
  int64_t num_opened = 0;
  const int64_t num_iterations = fuzz::NumIterations(3000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(42, i, 0, RandomPurpose::kTest);
    std::string bytes = fuzz::DamagedFile(random, material);
    if (random.NextBelow(8) != 0) FixTarChecksums(&bytes);
    ASSERT_NO_FATAL_FAILURE(WriteQuickly(path, bytes));
    const auto index = ReadTarIndex(path);
    if (!index.ok()) {
      ASSERT_TRUE(absl::StrContains(index.status().message(), path)) << index.status();
    } else {
      for (const TarMember& member : *index) {
        ASSERT_GE(member.offset, 512);
        ASSERT_GE(member.size, 0);
        ASSERT_LE(member.offset + member.size, static_cast<int64_t>(bytes.size()));
      }
    }
    const auto dataset = TarDataset::Open(path);
    if (!dataset.ok()) {
      ASSERT_TRUE(absl::StrContains(dataset.status().message(), path)) << dataset.status();
      continue;
    }
    ++num_opened;
    for (int32_t sample = 0; sample < (*dataset)->size(); ++sample) {
      (*dataset)->LoadImage(sample).status().IgnoreError();
      (*dataset)->LoadImageSize(sample).status().IgnoreError();
      (*dataset)->LoadCaptions(sample).status().IgnoreError();
      (*dataset)->LoadCondition(sample).status().IgnoreError();
    }
  }
  EXPECT_GT(num_opened, num_iterations / 20);
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
  material.tokens = {"{",       "}",       "[",   "]",  "\"",   "null",
                     "\\u0000", "\\ud800", "../", "\n", "true", ","};
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
