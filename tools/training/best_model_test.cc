#include "tools/training/best_model.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/trainable/load.h"

namespace dpipe::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kMeasure[] = "5 samples at quantiles 0.2";

class BestModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = models::LoadTrainableModel("data/tiny_sd", {});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = std::move(*model);
  }
  absl::StatusOr<BestModel> Open(bool resumes, const std::string& measure = kMeasure) {
    said_.clear();
    return BestModel::Open(folder_, measure, resumes,
                           [this](const std::string& line) { said_ += line; });
  }
  absl::Status Keep(BestModel* best, int64_t step, double loss) {
    const auto weights =
        *model_->InitialParameters(models::TrainableModel::Start::kRandom, /*seed=*/step);
    TrainingRecord record;
    record.steps = step;
    return best->Keep(*model_, *nn::SourceOf(weights), models::StoredFormat::kFp16, record, loss);
  }

  const ScratchFolder scratch_;
  const std::string folder_ = scratch_.File("model.best");
  std::unique_ptr<models::TrainableModel> model_;
  std::string said_;
};

TEST_F(BestModelTest, IsTheOneOfTheLowestLoss) {
  auto best = Open(/*resumes=*/false);
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ(best->Describe(), "");
  EXPECT_FALSE(best->IsBelow(std::nan("")));
  EXPECT_FALSE(best->IsBelow(-std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(best->IsBelow(1e9));
  ASSERT_TRUE(Keep(&*best, 20, 0.1).ok());
  EXPECT_TRUE(best->IsBelow(std::nextafter(0.1, 0)));
  EXPECT_FALSE(best->IsBelow(0.1));
  EXPECT_FALSE(best->IsBelow(std::nan("")));
  EXPECT_EQ(best->Describe(), folder_ + ", of step 20: loss 0.1000");
  EXPECT_TRUE(LoadTrainedModel(folder_, "", [](const std::string&) {}).ok());
}

// Losses are stored exactly, so repeating the same evaluation does not count as lower.
TEST_F(BestModelTest, ResumedRunKnowsTheBestLoss) {
  auto before = Open(false);
  ASSERT_TRUE(before.ok() && Keep(&*before, 20, 1.0 / 3).ok());
  const auto resumed = Open(/*resumes=*/true);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_FALSE(resumed->IsBelow(1.0 / 3));
  EXPECT_TRUE(resumed->IsBelow(std::nextafter(1.0 / 3, 0)));
  EXPECT_EQ(resumed->Describe(), before->Describe());
  EXPECT_EQ(said_, "");
  EXPECT_TRUE(Open(/*resumes=*/false)->IsBelow(1e9));
}

TEST_F(BestModelTest, LossesOfAnotherMeasureDoNotCount) {
  auto before = Open(false);
  ASSERT_TRUE(before.ok() && Keep(&*before, 20, 0.1).ok());
  const auto resumed = Open(true, "9 samples at quantiles 0.2");
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_TRUE(resumed->IsBelow(0.5));
  EXPECT_THAT(said_, AllOf(HasSubstr("was measured on 5 samples"),
                           HasSubstr("this run measures 9 samples")));
}

TEST_F(BestModelTest, UnreadableOrForeignFolderIsRefused) {
  ASSERT_TRUE(MakeFolder(folder_).ok());
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/thesis.txt", "years of work").ok());
  EXPECT_EQ(Open(false).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/training.json", "{\"steps\": ").ok());
  EXPECT_TRUE(Open(false).ok());
  const absl::Status status = Open(true).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/training.json"));
}

}  // namespace
}  // namespace dpipe::tools
