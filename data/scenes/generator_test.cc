#include "data/scenes/generator.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "data/images/image_decode.h"
#include "data/images/image_encode.h"
#include "data/images/image_resize.h"
#include "data/scenes/scene.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

BuiltInDatasetOptions Small() {
  BuiltInDatasetOptions options;
  options.count = 20;
  options.image_size = 32;
  return options;
}

std::string Read(const std::string& path) {
  auto content = ReadFile(path);
  return content.ok() ? *content : absl::StrCat("cannot read ", path);
}

TEST(GeneratorTest, WritesImagesAndMetadata) {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  int reported = 0;
  BuiltInDatasetOptions options = Small();
  options.progress = [&](int done, int count) { reported = done; };
  ASSERT_TRUE(EnsureBuiltInDataset(folder, options).ok());
  EXPECT_EQ(reported, 20);
  const std::vector<std::string> lines =
      absl::StrSplit(Read(folder + "/metadata.jsonl"), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 20u);
  for (int i = 0; i < 20; ++i) {
    const auto line = nlohmann::json::parse(lines[i]);
    const std::string bytes = Read(folder + "/" + line["file_name"].get<std::string>());
    EXPECT_TRUE(absl::StartsWith(bytes, i % 8 == 7 ? "\xff\xd8" : "\x89PNG")) << i;
    EXPECT_TRUE(absl::StartsWith(line["text"].get<std::string>(), "a")) << i;
  }
}

TEST(GeneratorTest, WritesOutlinesWhenAsked) {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  BuiltInDatasetOptions options = Small();
  options.with_conditions = true;
  ASSERT_TRUE(EnsureBuiltInDataset(folder, options).ok());
  const std::vector<std::string> lines =
      absl::StrSplit(Read(folder + "/metadata.jsonl"), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 20u);
  const auto line = nlohmann::json::parse(lines[7]);
  EXPECT_EQ(line["conditioning_image"], "conditioning/00007.png");
  EXPECT_EQ(Read(folder + "/conditioning/00007.png"),
            EncodePng(RenderSceneEdges(DrawScene(options.seed, 7), 32)).value());
  // The images are the same as in a data set without outlines.
  const ScratchFolder plain_scratch;
  const std::string& plain = plain_scratch.path();
  ASSERT_TRUE(EnsureBuiltInDataset(plain, Small()).ok());
  EXPECT_EQ(Read(folder + "/00004.png"), Read(plain + "/00004.png"));
  EXPECT_EQ(EnsureBuiltInDataset(folder, Small()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GeneratorTest, ImagesOfOtherShapesHaveTheirSceneInTheMiddle) {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  BuiltInDatasetOptions options = Small();
  options.max_aspect = 2;
  options.with_conditions = true;
  ASSERT_TRUE(EnsureBuiltInDataset(folder, options).ok());
  int num_wide = 0, num_high = 0;
  for (int i = 0; i < 20; ++i) {
    if (i % 8 == 7) continue;  // JPEG
    const auto image = ReadImage(absl::StrFormat("%s/%05d.png", folder, i));
    ASSERT_TRUE(image.ok()) << image.status();
    const int longer = std::max(image->width, image->height);
    EXPECT_EQ(std::min(image->width, image->height), 32);
    EXPECT_LE(longer, 64);
    num_wide += image->width > 40;
    num_high += image->height > 40;
    const Scene scene = DrawScene(options.seed, i);
    const Image middle =
        CropImage(*image, (image->width - 32) / 2, (image->height - 32) / 2, 32, 32);
    EXPECT_EQ(middle.pixels, RenderScene(scene, 32).pixels) << i;
    EXPECT_EQ(image->At(0, 0)[1], RgbOf(scene.background)[1]) << i;
    const auto outlines = ReadImage(absl::StrFormat("%s/conditioning/%05d.png", folder, i));
    ASSERT_TRUE(outlines.ok()) << outlines.status();
    EXPECT_EQ(outlines->width, image->width);
  }
  EXPECT_GT(num_wide, 2);
  EXPECT_GT(num_high, 2);
}

TEST(GeneratorTest, CompleteFolderIsLeftAlone) {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  ASSERT_TRUE(EnsureBuiltInDataset(folder, Small()).ok());
  unlink((folder + "/00003.png").c_str());
  ASSERT_TRUE(EnsureBuiltInDataset(folder, Small()).ok());
  EXPECT_NE(access((folder + "/00003.png").c_str(), F_OK), 0);
}

TEST(GeneratorTest, PartialFolderIsFinishedToTheSameBytes) {
  const ScratchFolder whole_scratch, partial_scratch;
  const std::string &whole = whole_scratch.path(), &partial = partial_scratch.path();
  ASSERT_TRUE(EnsureBuiltInDataset(whole, Small()).ok());
  ASSERT_TRUE(EnsureBuiltInDataset(partial, Small()).ok());
  // As an interruption would leave it.
  auto manifest = nlohmann::ordered_json::parse(Read(partial + "/dataset.json"));
  manifest["complete"] = false;
  ASSERT_TRUE(WriteFileAtomically(partial + "/dataset.json", manifest.dump()).ok());
  unlink((partial + "/00007.jpg").c_str());
  unlink((partial + "/00012.png").c_str());
  unlink((partial + "/metadata.jsonl").c_str());
  ASSERT_TRUE(EnsureBuiltInDataset(partial, Small()).ok());
  for (const char* name : {"00007.jpg", "00012.png", "metadata.jsonl", "dataset.json"}) {
    EXPECT_EQ(Read(absl::StrCat(whole, "/", name)), Read(absl::StrCat(partial, "/", name))) << name;
  }
}

TEST(GeneratorTest, OtherDataSetsAreNotTouched) {
  const ScratchFolder scratch;
  const std::string& folder = scratch.path();
  ASSERT_TRUE(EnsureBuiltInDataset(folder, Small()).ok());
  BuiltInDatasetOptions other = Small();
  other.seed = 2;
  const absl::Status status = EnsureBuiltInDataset(folder, other);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(status.message(), "\"seed\":1")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "\"seed\":2")) << status;

  const ScratchFolder mine_scratch;
  const std::string& mine = mine_scratch.path();
  ASSERT_TRUE(WriteFileAtomically(mine + "/holiday.txt", "x").ok());
  EXPECT_EQ(EnsureBuiltInDataset(mine, Small()).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(WriteFileAtomically(mine + "/dataset.json", "{not json").ok());
  EXPECT_EQ(EnsureBuiltInDataset(mine, Small()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GeneratorTest, RejectsImpossibleOptions) {
  BuiltInDatasetOptions options = Small();
  options.count = 0;
  EXPECT_EQ(EnsureBuiltInDataset("/nowhere", options).code(), absl::StatusCode::kInvalidArgument);
  options = Small();
  options.image_size = 3;
  EXPECT_EQ(EnsureBuiltInDataset("/nowhere", options).code(), absl::StatusCode::kInvalidArgument);
  options = Small();
  options.max_aspect = 0.5;
  EXPECT_EQ(EnsureBuiltInDataset("/nowhere", options).code(), absl::StatusCode::kInvalidArgument);
}

TEST(GeneratorTest, UnwritableFolderIsAnErrorThatNamesIt) {
  const absl::Status status = EnsureBuiltInDataset("/proc/no/such/place", Small());
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(absl::StrContains(status.message(), "/proc/no")) << status;
}

}  // namespace
}  // namespace dpipe
