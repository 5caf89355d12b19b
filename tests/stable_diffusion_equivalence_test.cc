// tiny_sd, the model that the main job trains: every strategy gives one device's losses and
// parameters, over 20 steps of real images, captions, noise and optimizer, in fp32 and bf16.
#include <memory>
#include <string>

#include "data/generator.h"
#include "gtest/gtest.h"
#include "models/stable_diffusion/training_setup.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kSteps = 20;
constexpr int kGlobalBatch = 4;
constexpr int kMicroBatchSize = 1;
constexpr int kFrozenQuantum = 2;

std::string DataFolder() {
  const std::string folder = ::testing::TempDir() + "/scenes";
  BuiltInDatasetOptions options;
  options.count = 48;
  const absl::Status status = EnsureBuiltInDataset(folder, options);
  EXPECT_TRUE(status.ok()) << status;
  return folder;
}

absl::StatusOr<testlib::TrainingOutcome> Train(const std::string& strategy, int num_devices,
                                               DType dtype) {
  models::TrainingSetupOptions options;
  options.model_folder = "data/tiny_sd";
  options.data_folder = DataFolder();
  // Workers without a core of their own: what is compared must not need them.
  options.num_devices = 1;
  options.global_batch = kGlobalBatch;
  options.compute_dtype = dtype;
  options.frozen_quantum = kFrozenQuantum;
  options.seed = 4;
  options.random_flip = strategy != "offline_cache";
  options.optimizer.learning_rate.peak = 1e-3f;
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options));
  if (strategy == "offline_cache") DPIPE_RETURN_IF_ERROR(setup->BuildCache(kSteps).status());
  const auto devices = std::vector<std::shared_ptr<Device>>(num_devices, Device::Cpu());
  const auto workers = StartWorkers(devices);
  TrainingJob job = setup->job();
  job.workers.clear();
  for (const auto& worker : workers) job.workers.push_back(worker.get());

  testlib::PlanRequest request;
  request.strategy = strategy;
  request.num_devices = num_devices;
  request.global_batch = kGlobalBatch;
  request.micro_batch_size = kMicroBatchSize;
  request.num_stages = strategy == "data_parallel" || num_devices == 1 ? 1 : num_devices;
  const ModelProfile profile =
      testlib::MadeUpProfile(setup->model().model(), dtype, kFrozenQuantum, {1, 2, 4}, /*seed=*/3);
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, testlib::MakeTestPlan(profile, request));
  return testlib::Train(job, plan, kSteps);
}

class StableDiffusionEquivalenceTest : public ::testing::TestWithParam<DType> {};

TEST_P(StableDiffusionEquivalenceTest, PipelinesAreBitIdenticalToOneDevice) {
  const auto expected = Train("data_parallel", 1, GetParam());
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* strategy : {"gpipe", "1f1b", "diffusionpipe"}) {
    const auto actual = Train(strategy, 2, GetParam());
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "") << strategy;
  }
  EXPECT_LT(expected->losses.back(), expected->losses.front()) << "it does not learn";
}

INSTANTIATE_TEST_SUITE_P(DTypes, StableDiffusionEquivalenceTest,
                         ::testing::Values(DType::kF32, DType::kBf16),
                         [](const ::testing::TestParamInfo<DType>& info) {
                           return std::string(DTypeName(info.param));
                         });

TEST(StableDiffusionEquivalenceTest, DataParallelAgreesToRounding) {
  const auto expected = Train("data_parallel", 1, DType::kF32);
  const auto actual = Train("data_parallel", 2, DType::kF32);
  ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
  EXPECT_LT(testlib::LargestRelativeDifference(*expected, *actual), 1e-5);
}

}  // namespace
}  // namespace dpipe
