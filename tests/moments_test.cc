// Trains with AdamW and 8-bit moments.
#include <cmath>

#include "gtest/gtest.h"
#include "tests/testlib/fake_gpus.h"
#include "tests/testlib/toy_job.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kSteps = 60;

enum class On { kCpus, kFakeGpus };

testlib::TrainingOutcome Train(MomentsFormat moments, const std::string& strategy, int num_devices,
                               On devices = On::kCpus, int steps = kSteps) {
  testlib::ToyJob toy(num_devices);
  TrainingJob& job = toy.job();
  job.optimizer.learning_rate.peak = 3e-3f;
  job.optimizer.moments = moments;
  const ModelProfile profile = testlib::SyntheticProfile(
      toy.model(), DType::kF32, /*frozen_quantum=*/1, {1, 2, 4, 8}, /*seed=*/3);
  testlib::PlanRequest request;
  request.strategy = strategy;
  request.num_devices = num_devices;
  request.micro_batch_size = 2;
  request.num_stages = num_devices;
  const auto plan = testlib::MakeTestPlan(profile, request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto outcome = devices == On::kCpus ? testlib::Train(job, *plan, steps)
                                            : testlib::TrainOnFakeGpus(job, *plan, steps);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return *outcome;
}

double MeanOfLast(const testlib::TrainingOutcome& outcome, int count) {
  double sum = 0;
  for (int i = kSteps - count; i < kSteps; ++i) sum += outcome.losses[i];
  return sum / count;
}

TEST(EightBitMomentsTest, LossesStayCloseToThoseOfFp32) {
  const testlib::TrainingOutcome whole = Train(MomentsFormat::kFp32, "1f1b", 2);
  const testlib::TrainingOutcome quantized = Train(MomentsFormat::kInt8, "1f1b", 2);
  EXPECT_EQ(quantized.losses[0], whole.losses[0]);
  EXPECT_NE(quantized.losses[kSteps - 1], whole.losses[kSteps - 1]) << "they are in use";
  double largest = 0;
  for (int i = 0; i < kSteps; ++i) {
    largest = std::max(largest, std::abs(quantized.losses[i] / whole.losses[i] - 1));
  }
  RecordProperty("largest_relative_difference", std::to_string(largest));
  // Three times what was measured.
  EXPECT_LT(largest, 0.007);
  EXPECT_NEAR(MeanOfLast(quantized, 10), MeanOfLast(whole, 10), 0.0025 * MeanOfLast(whole, 10));
  EXPECT_LT(MeanOfLast(whole, 10), 0.95 * whole.losses[0]) << "there is something to learn";
}

// A pipeline computes the same bits as one device, because blocks are within parameters.
TEST(EightBitMomentsTest, DoNotDependOnThePipeline) {
  const testlib::TrainingOutcome one = Train(MomentsFormat::kInt8, "gpipe", 1);
  EXPECT_EQ(testlib::FirstDifference(one, Train(MomentsFormat::kInt8, "1f1b", 3)), "");
  EXPECT_EQ(testlib::FirstDifference(one, Train(MomentsFormat::kInt8, "gpipe", 1)), "");
}

// On GPUs, a kernel updates and quantises them.
TEST(EightBitMomentsTest, GpusTrainAsCpusDo) {
  const auto on = [](On devices) { return Train(MomentsFormat::kInt8, "1f1b", 2, devices, 4); };
  const testlib::TrainingOutcome cpus = on(On::kCpus), gpus = on(On::kFakeGpus);
  const testlib::TrainingOutcome whole =
      Train(MomentsFormat::kFp32, "1f1b", 2, On::kFakeGpus, /*steps=*/4);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(gpus.losses[i], cpus.losses[i], 2e-7 * cpus.losses[i]);
  EXPECT_NE(gpus.losses[3], whole.losses[3]) << "they are in use";
}

}  // namespace
}  // namespace dpipe
