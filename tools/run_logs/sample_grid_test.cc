#include "tools/run_logs/sample_grid.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "data/folders/folder_dataset.h"
#include "data/images/image_encode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/trainable/load.h"

namespace dpipe::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckGridsTest : public ::testing::Test {
 protected:
  absl::Status Check(const std::string& folder) {
    const auto model = models::LoadTrainableModel(folder, {});
    EXPECT_TRUE(model.ok()) << model.status();
    said_.clear();
    return CheckGrids(**model, options_, prompts_,
                      [this](const std::string& line) { said_ += line; });
  }

  TrainerOptions options_;
  std::vector<std::string> prompts_;
  std::string said_;
};

TEST_F(CheckGridsTest, StepsOutsideTheScheduleAreRefused) {
  prompts_ = options_.sample_prompts = {"a red circle"};
  EXPECT_TRUE(Check("data/tiny_sd").ok());
  options_.draw.num_steps = 3000;
  const absl::Status status = Check("data/tiny_sd");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("--samples.*: sampling in 3000 steps; the schedule allows 1 to 1000"),
                    HasSubstr("--samples=false --sample_every=0 draws none")));
  options_.sample_at_end = false;
  EXPECT_TRUE(Check("data/tiny_sd").ok()) << "none are drawn";
  options_.sample_every = 5;
  EXPECT_FALSE(Check("data/tiny_sd").ok());
}

TEST_F(CheckGridsTest, OnlyUserPromptsWithoutAClassAreRefused) {
  prompts_ = options_.sample_prompts = {"a red circle", "a dog on a lawn"};
  const absl::Status status = Check("data/tiny_cdm");
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("--samples.prompts: caption 'a dog on a lawn' contains none of the 40 class "));
  options_.sample_prompts.clear();
  EXPECT_TRUE(Check("data/tiny_cdm").ok());
  EXPECT_THAT(said_, HasSubstr("Warning:  --samples.prompts: caption 'a dog on a lawn'"));
  EXPECT_TRUE(Check("data/tiny_sd").ok());
  EXPECT_EQ(said_, "") << "captions of any words";
}

// A folder of samples with these captions, numbered 10, 11, ...
FolderDataset FolderOf(const std::string& name, const std::vector<std::string>& captions) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  EXPECT_TRUE(MakeFolder(folder).ok());
  const std::string png = *EncodePng(Image(8, 8));
  for (size_t i = 0; i < captions.size(); ++i) {
    const std::string path = absl::StrCat(folder, "/", 10 + i);
    EXPECT_TRUE(WriteFileAtomically(path + ".png", png).ok());
    EXPECT_TRUE(WriteFileAtomically(path + ".txt", captions[i]).ok());
  }
  return FolderDataset::Open(folder).value();
}

TEST(GridPromptsTest, TheDataSetsCaptionsWithoutDuplicates) {
  const FolderDataset data =
      FolderOf("five", {"a cat", "a dog", "a cat", "two cats", "a grey cat on a mat"});
  TrainerOptions options;
  EXPECT_THAT(GridPrompts(options, data),
              ElementsAre("a cat", "a dog", "two cats", "a grey cat on a mat"));
  options.sample_prompts = {"a bird"};
  EXPECT_THAT(GridPrompts(options, data), ElementsAre("a bird")) << "the user's take precedence";
}

TEST(SuggestedPromptsTest, TheTwoShortestThatFitOneArgument) {
  const auto model = models::LoadTrainableModel("data/tiny_sd", {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(SuggestedPrompts(**model, {}, {"a long caption", "", "a|b", "a dog", "a dog", "cat"}),
              ElementsAre("cat", "a dog"));
}

TEST(GridPromptsTest, AtMostSixteen) {
  std::vector<std::string> captions;
  for (int i = 0; i < 20; ++i) captions.push_back(absl::StrCat("cat ", i));
  const FolderDataset data = FolderOf("twenty", captions);
  captions.resize(16);
  EXPECT_EQ(GridPrompts(TrainerOptions(), data), captions);
}

TEST(GridPromptsTest, FewAreRepeated) {
  EXPECT_THAT(GridPrompts(TrainerOptions(), FolderOf("one", {"a sks dog", "a sks dog"})),
              ElementsAre("a sks dog", "a sks dog", "a sks dog", "a sks dog"));
  EXPECT_THAT(GridPrompts(TrainerOptions(), FolderOf("three", {"a", "b", "c"})),
              ElementsAre("a", "b", "c", "a"));
}

}  // namespace
}  // namespace dpipe::tools
