// Tests how samples that cannot be read are skipped, replaced, counted and remembered.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "data/images/image_encode.h"
#include "data/loader.h"
#include "data/testing/loader_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

TEST_F(LoaderTest, CorruptSamplesAreReplacedByTheNextGoodOne) {
  const std::set<int> corrupt = {1, 4, 5};
  MakeFolder(10, corrupt);
  const auto loader = Load();
  for (int64_t step = 0; step < 10; ++step) {
    const auto indices = loader->Indices(step, {0, 4});
    ASSERT_TRUE(indices.ok()) << indices.status();
    for (int i = 0; i < 4; ++i) {
      int64_t position = step * 4 + i;
      const auto order = EpochOrder(11, position / 10, 10);
      int place = position % 10;
      while (corrupt.count(order[place]) > 0) place = (place + 1) % 10;
      EXPECT_EQ((*indices)[i], order[place]);
    }
  }
  const auto quarantine = loader->Quarantine();
  ASSERT_EQ(quarantine.size(), 3u);
  EXPECT_EQ(quarantine[1].index, 4);
  EXPECT_THAT(quarantine[1].path, HasSubstr("/4.png"));
  EXPECT_THAT(quarantine[1].reason, HasSubstr("corrupt PNG"));
}

TEST_F(LoaderTest, TooManyCorruptSamplesAreAnError) {
  MakeFolder(10, {1, 4, 5});
  options_.max_corrupt = 2;
  const auto loader = Load();
  absl::Status status;
  for (int64_t step = 0; step < 3 && status.ok(); ++step) {
    status = loader->Indices(step, {0, 4}).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("3 images of 10 cannot be decoded, more than the limit of 2; one of them: "));
}

TEST_F(LoaderTest, TheLimitMayBeAShare) {
  MakeFolder(10, {1, 4, 5});
  options_.max_corrupt_share = 0.25;
  {
    const auto loader = Load();
    absl::Status status;
    for (int64_t step = 0; step < 3 && status.ok(); ++step) {
      status = loader->Indices(step, {0, 4}).status();
    }
    EXPECT_THAT(std::string(status.message()), HasSubstr("more than the limit of 2"));
  }
  options_.max_corrupt_share = 0.3;
  const auto loader = Load();
  for (int64_t step = 0; step < 10; ++step) EXPECT_TRUE(loader->Indices(step, {0, 4}).ok());
}

// A later run skips the files that an earlier one found, even if they are readable again.
TEST_F(LoaderTest, QuarantineOutlivesTheRun) {
  MakeFolder(10, {1, 4});
  options_.quarantine_path = folder_ + "/quarantine.jsonl";
  std::vector<int32_t> before, after;
  const auto run = [&](std::vector<int32_t>* indices) {
    const auto loader = Load();
    for (int64_t step = 0; step < 5; ++step) {
      const std::vector<int32_t> found = loader->Indices(step, {0, 4}).value();
      indices->insert(indices->end(), found.begin(), found.end());
    }
  };
  run(&before);
  EXPECT_THAT(ReadFile(options_.quarantine_path).value(), HasSubstr("/4.png: corrupt PNG"));
  const std::string log = ReadFile(options_.quarantine_path).value();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2);
  Write("4.png", EncodePng(Numbered(4)).value());
  run(&after);
  EXPECT_EQ(after, before);
  EXPECT_EQ(ReadFile(options_.quarantine_path).value(), log);
  options_.max_corrupt = 1;
  EXPECT_THAT(
      std::string(
          DataLoader::Create(FolderDataset::Open(folder_).value(), options_).status().message()),
      HasSubstr("2 images of 10 cannot be decoded, more than the limit of 1"));
}

// Contains the path and the faulty file, each once.
TEST_F(LoaderTest, SkippedSamplesNameTheirPathOnce) {
  MakeFolder(3, {1});
  unlink(absl::StrCat(folder_, "/2.png").c_str());
  const auto loader = Load();
  EXPECT_EQ(loader->Indices(0, {0, 4}).value(), (std::vector<int32_t>{0, 0, 0, 0}));
  const auto quarantine = loader->Quarantine();
  ASSERT_EQ(quarantine.size(), 2u);
  for (const QuarantinedSample& sample : quarantine) {
    const std::string text = sample.ToString();
    const size_t at = text.find(sample.path);
    EXPECT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find(sample.path, at + 1), std::string::npos) << text;
  }
  EXPECT_EQ((QuarantinedSample{0, "/a.png", "/a.cond.png: empty"}).ToString(),
            "/a.png: /a.cond.png: empty");
}

// A sample that was readable, is evicted, and then becomes unreadable. Its caption is that of its
// substitute, like its pixels.
TEST_F(LoaderTest, CaptionsAreThoseOfSubstitutes) {
  MakeFolder(6, {});
  options_.global_batch = 6;
  options_.cache_bytes = 0;
  options_.prefetch_threads = 0;
  const auto loader = Load();
  const std::vector<int32_t> before = loader->Indices(0, {0, 6}).value();
  Write(absl::StrCat(before[2], ".png"), "damaged");
  const std::vector<float> pixels = Pixels(*loader, 0, {0, 6});
  const auto captions = loader->Captions(0, {0, 6});
  ASSERT_TRUE(captions.ok()) << captions.status();
  for (int i = 0; i < 6; ++i) {
    const int32_t expected = i == 2 ? before[3] : before[i];
    EXPECT_EQ(ByteOf(pixels[i * kSamplePixels]), expected) << i;
    EXPECT_EQ((*captions)[i], absl::StrCat(expected)) << i;
  }
}

TEST_F(LoaderTest, OnlyCorruptSamplesIsAnError) {
  MakeFolder(3, {0, 1, 2});
  const auto loader = Load();
  EXPECT_THAT(std::string(loader->Captions(0, {0, 1}).status().message()),
              HasSubstr("none of its 3 images can be decoded"));
}

TEST_F(LoaderTest, SamplesWithBadConditionsAreSkipped) {
  MakeFolder(3, {});
  Write("metadata.jsonl",
        R"({"file_name": "0.png", "text": "0", "conditioning_image": "0.png"})"
        "\n"
        R"({"file_name": "1.png", "text": "1", "conditioning_image": "metadata.jsonl"})"
        "\n"
        R"({"file_name": "2.png", "text": "2", "conditioning_image": "wide.png"})");
  Write("wide.png", EncodePng(Image(40, 8)).value());
  options_.with_conditions = true;
  const auto loader = Load();
  EXPECT_EQ(loader->Indices(0, {0, 3}).value(), (std::vector<int32_t>{0, 0, 0}));
  const auto quarantine = loader->Quarantine();
  ASSERT_EQ(quarantine.size(), 2u);
  EXPECT_THAT(quarantine[0].reason, HasSubstr("metadata.jsonl: JSON text, not a JPEG"));
  EXPECT_THAT(quarantine[1].reason, HasSubstr("8 x 8, its condition picture 40 x 8"));
}

}  // namespace
}  // namespace dpipe
