#include "tools/run_logs/sample_grid.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/trainable/load.h"

namespace dpipe::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckGridsTest : public ::testing::Test {
 protected:
  absl::Status Check(const std::string& folder) {
    const auto model = models::LoadTrainableModel(folder, {});
    EXPECT_TRUE(model.ok()) << model.status();
    said_.clear();
    return CheckGrids(**model, options_, [this](const std::string& line) { said_ += line; });
  }

  TrainerOptions options_;
  std::string said_;
};

TEST_F(CheckGridsTest, StepsOutsideTheScheduleAreRefused) {
  options_.sample_prompts = {"a red circle"};
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

TEST_F(CheckGridsTest, UserPromptsWithoutAClassAreRefused) {
  options_.sample_prompts = {"a red circle", "a dog on a lawn"};
  const absl::Status status = Check("data/tiny_cdm");
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("--samples.prompts: caption 'a dog on a lawn' contains none of the 40 class "));
  options_.sample_prompts_are_examples = true;
  EXPECT_TRUE(Check("data/tiny_cdm").ok());
  EXPECT_THAT(said_, HasSubstr("Warning:  --samples.prompts: caption 'a dog on a lawn'"));
  EXPECT_TRUE(Check("data/tiny_sd").ok());
  EXPECT_EQ(said_, "") << "captions of any words";
}

}  // namespace
}  // namespace dpipe::tools
