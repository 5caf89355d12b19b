#include "models/trainable/data_report.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "data/images/image_encode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/tokenizer/clip_tokenizer.h"

namespace dpipe::models {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class DataReportTest : public testing::Test {
 protected:
  DataReportTest() {
    options_.image_size = 64;
    options_.global_batch = 2;
    options_.prefetch_threads = 0;
  }
  void Write(const std::string& stem, ImageSize size, const std::string& caption) {
    const std::string path = absl::StrCat(scratch_.path(), "/", stem);
    ASSERT_TRUE(
        WriteFileAtomically(path + ".png", EncodePng(Image(size.width, size.height)).value()).ok());
    ASSERT_TRUE(WriteFileAtomically(path + ".txt", caption).ok());
  }
  std::unique_ptr<DataLoader> Load() {
    return DataLoader::Create(FolderDataset::Open(scratch_.path()).value(), options_).value();
  }

  const ScratchFolder scratch_;
  DataLoaderOptions options_;
  const ClipTokenizer tokenizer_ = ClipTokenizer::Load("data/tiny_sd/tokenizer").value();
};

// Returns `count` words of one token each, to check that words are counted and not bytes.
std::string Words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, i == 0 ? "" : " ", "red");
  return text;
}

TEST_F(DataReportTest, ReportsNoProblems) {
  for (const char* stem : {"a", "b", "c"}) Write(stem, {64, 64}, "a red circle");
  EXPECT_THAT(DescribeSamples(*Load(), &tokenizer_),
              ElementsAre("sizes of 3 images: none cropped, none enlarged",
                          "captions of 3 images: none cut"));
  EXPECT_THAT(DescribeSamples(*Load(), nullptr),
              ElementsAre("sizes of 3 images: none cropped, none enlarged"));
}

TEST_F(DataReportTest, CaptionsThatAreCutAreCountedAndTheLongestNamed) {
  ASSERT_EQ(tokenizer_.max_length(), 32);
  Write("a", {64, 64}, Words(30));
  EXPECT_THAT(DescribeSamples(*Load(), &tokenizer_), Contains("captions of 1 image: none cut"));
  Write("b", {64, 64}, Words(31));
  Write("c", {64, 64}, Words(90));
  EXPECT_THAT(DescribeSamples(*Load(), &tokenizer_),
              Contains("captions of 3 images: 2 cut to 32 tokens (the longest, of c.png, has 92)"));
}

TEST_F(DataReportTest, CropsAndEnlargementsAreCountedAndTheWorstNamed) {
  Write("dot", {1, 1}, "a");
  Write("small", {60, 60}, "a");
  Write("wide", {256, 128}, "a");
  Write("fits", {128, 128}, "a");
  EXPECT_THAT(
      DescribeSamples(*Load(), nullptr),
      ElementsAre(
          "sizes of 4 images: 1 cropped (at most by 50 % of the area, wide.png), 2 enlarged "
          "(at most 64 times, dot.png of 1 x 1; --data.min_side leaves out small ones)"));
}

TEST_F(DataReportTest, SizesOfStepsAreATable) {
  options_.buckets = {{64, 32}, {32, 64}};
  for (int i = 0; i < 3; ++i) Write(absl::StrCat("wide", i), {256, 128 - 16 * i}, "a");
  for (int i = 0; i < 3; ++i) Write(absl::StrCat("dot", i), {1, 2}, "a");
  Write("high", {32, 64}, "a");
  const std::vector<std::string> lines = DescribeSamples(*Load(), nullptr);
  EXPECT_THAT(
      lines,
      ElementsAre(HasSubstr("sizes of 7 images: 2 cropped (at most by 25 % of the "
                            "area, wide2.png), 3 enlarged (at most 32 times, dot0.png of 1 x 2"),
                  "size     images  of steps  cropped  cut off  enlarged",
                  "-------  ------  --------  -------  -------  --------",
                  "64 x 32       3    42.9 %        2   12.5 %         0",
                  "32 x 64       4    57.1 %        0      0 %         3",
                  "no image is dropped: the next epoch fills an incomplete batch"));
}

TEST_F(DataReportTest, SkippedImagesAreCounted) {
  for (const char* stem : {"a", "b"}) Write(stem, {64, 64}, "a");
  ASSERT_TRUE(WriteFileAtomically(scratch_.path() + "/b.png", "not an image").ok());
  const auto loader = Load();
  EXPECT_THAT(DescribeSamples(*loader, nullptr),
              ElementsAre("sizes of 1 of 2 images: none cropped, none enlarged"));
  ASSERT_TRUE(loader->Decode(0).ok());
  EXPECT_THAT(DescribeSamples(*loader, nullptr),
              Contains(HasSubstr("1 image skipped so far, the first: " + scratch_.path())));
}

// For a large data set the number of inspected samples is reported.
TEST_F(DataReportTest, LargeDataSetsAreSampled) {
  std::string metadata;
  const int count = kMaxHeadersRead + 200;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&metadata, "{\"file_name\": \"", i % 7, ".png\", \"text\": \"a\"}\n");
  }
  for (int i = 0; i < 7; ++i) Write(absl::StrCat(i), {64, 64}, "a");
  ASSERT_TRUE(WriteFileAtomically(scratch_.path() + "/metadata.jsonl", metadata).ok());
  EXPECT_THAT(DescribeSamples(*Load(), &tokenizer_),
              ElementsAre("sizes of 1000 of 1200 images: none cropped, none enlarged",
                          "captions of 1200 images: none cut"));
}

TEST_F(DataReportTest, LinesStayShort) {
  const std::string name(200, 'x');
  Write(name, {1, 3}, Words(1000));
  EXPECT_THAT(DescribeSamples(*Load(), &tokenizer_), Each(testing::SizeIs(testing::Lt(300u))));
  EXPECT_THAT(DescribeSamples(*Load(), &tokenizer_), Each(Not(HasSubstr(name))));
}

}  // namespace
}  // namespace dpipe::models
