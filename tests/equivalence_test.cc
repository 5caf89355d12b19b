// Checks that pipelines and data parallelism compute the same as one device, over many steps. See
// all_strategies_test for every strategy's gradients.
//
// Pipelines with one replica per stage and the same micro-batches must be bit-identical in losses
// and parameters. Data parallelism must agree to rounding, because gradients are added in another
// order.
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testlib/toy_job.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kSteps = 20;
constexpr int kGlobalBatch = 8;
constexpr int kMicroBatchSize = 2;

class Fixture {
 public:
  Fixture(DType dtype, int num_devices) : toy_(num_devices, dtype) {
    job_.optimizer.max_grad_norm = 0.5;
    profile_ =
        testlib::SyntheticProfile(model_, dtype, /*frozen_quantum=*/1, {1, 2, 4, 8}, /*seed=*/3);
  }

  absl::StatusOr<testlib::TrainingOutcome> Run(const std::string& strategy, int num_stages,
                                               int steps_per_run = 0) {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = toy_.num_devices();
    request.global_batch = kGlobalBatch;
    request.micro_batch_size = kMicroBatchSize;
    request.num_stages = num_stages;
    DPIPE_ASSIGN_OR_RETURN(plan_, testlib::MakeTestPlan(profile_, request));
    return testlib::Train(job_, plan_, kSteps, steps_per_run);
  }

  TrainingJob& job() { return job_; }
  const Plan& plan() const { return plan_; }  // of the last run

 private:
  testlib::ToyJob toy_;
  const nn::Model& model_ = toy_.model();
  TrainingJob& job_ = toy_.job();
  ModelProfile profile_;
  Plan plan_;
};

absl::StatusOr<testlib::TrainingOutcome> OneDevice(DType dtype) {
  return Fixture(dtype, 1).Run("data_parallel", 1);
}

using Case = std::tuple<std::string, int, DType>;

class PipelineEquivalenceTest : public ::testing::TestWithParam<Case> {};

TEST_P(PipelineEquivalenceTest, IsBitIdenticalToOneDevice) {
  const auto& [strategy, num_devices, dtype] = GetParam();
  const auto expected = OneDevice(dtype);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto actual = Fixture(dtype, num_devices).Run(strategy, /*num_stages=*/num_devices);
  ASSERT_TRUE(actual.ok()) << actual.status();
  EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "");
  EXPECT_LT(expected->losses.back(), expected->losses.front()) << "it does not learn";
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const std::string strategy = std::get<0>(info.param);
  return "strategy_" + strategy + "_on_" + std::to_string(std::get<1>(info.param)) + "_" +
         std::string(DTypeName(std::get<2>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Strategies, PipelineEquivalenceTest,
                         ::testing::Combine(::testing::Values("gpipe", "1f1b", "diffusionpipe"),
                                            ::testing::Values(2, 3, 4),
                                            ::testing::Values(DType::kF32, DType::kBf16)),
                         CaseName);

TEST(EquivalenceTest, RunsCutIntoPiecesAreTheSame) {
  const auto whole = Fixture(DType::kF32, 2).Run("diffusionpipe", 2);
  const auto pieces = Fixture(DType::kF32, 2).Run("diffusionpipe", 2, /*steps_per_run=*/3);
  ASSERT_TRUE(whole.ok() && pieces.ok()) << whole.status() << pieces.status();
  EXPECT_EQ(testlib::FirstDifference(*whole, *pieces), "");
}

TEST(EquivalenceTest, DataParallelAgreesToRounding) {
  const auto expected = OneDevice(DType::kF32);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (int num_devices : {2, 4}) {
    const auto actual = Fixture(DType::kF32, num_devices).Run("data_parallel", 1);
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_LT(testlib::LargestRelativeDifference(*expected, *actual), 1e-5);
  }
}

// Several replicas of each of two stages: data and pipeline parallelism combined.
TEST(EquivalenceTest, ReplicatedPipelinesAgreeToRounding) {
  const auto expected = OneDevice(DType::kF32);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* strategy : {"gpipe", "1f1b", "diffusionpipe"}) {
    const auto actual = Fixture(DType::kF32, 4).Run(strategy, 2);
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    EXPECT_LT(testlib::LargestRelativeDifference(*expected, *actual), testlib::kRoundingDifference)
        << strategy;
  }
}

// The checks above can fail: they detect a parameter that is off by one unit in the last place, and
// a different loss.
TEST(EquivalenceTest, TheCheckSeesOneBit) {
  const auto a = OneDevice(DType::kF32);
  auto b = OneDevice(DType::kF32);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(testlib::FirstDifference(*a, *b), "");
  float* value = b->parameters.begin()->second.data<float>();
  *value = std::nextafter(*value, 2.0f);
  EXPECT_EQ(testlib::FirstDifference(*a, *b), "parameter " + b->parameters.begin()->first);
  b->losses[3] += 1e-15;
  EXPECT_NE(testlib::FirstDifference(*a, *b).find("loss of step 3"), std::string::npos);
}

// Real errors are detected: another seed of the data, another learning rate.
TEST(EquivalenceTest, OtherTrainingIsDifferent) {
  const auto expected = OneDevice(DType::kF32);
  Fixture other(DType::kF32, 2);
  other.job().optimizer.learning_rate.peak = 1.01e-2f;
  const auto actual = other.Run("1f1b", 2);
  ASSERT_TRUE(expected.ok() && actual.ok());
  EXPECT_NE(testlib::FirstDifference(*expected, *actual), "");
  EXPECT_GT(testlib::LargestRelativeDifference(*expected, *actual), 1e-5);
}

}  // namespace
}  // namespace dpipe
