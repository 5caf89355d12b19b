// Whole models train on GPUs of a fake driver, where our kernels run emulated, as they do on the
// CPU. Nothing on the host may touch a GPU's memory: the test crashes where something does.
#include <memory>
#include <string>
#include <vector>

#include "core/comm/peer_communicator.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/fake_driver.h"
#include "data/generator.h"
#include "gtest/gtest.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kDevices = 2;
constexpr int kBatch = 2;

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectPeers(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline) {
  InProcessOptions options;
  options.deadline = deadline;
  return CreatePeerCommunicators(devices, options);
}

// Of two steps: the second one's has seen the first one's update.
std::vector<double> Losses(TrainingJob job, const Plan& plan,
                           const std::vector<std::shared_ptr<Device>>& devices) {
  const auto workers = StartWorkers(devices);
  job.workers.clear();
  for (const auto& worker : workers) job.workers.push_back(worker.get());
  job.connect = ConnectPeers;
  const auto trained = testlib::Train(job, plan, /*steps=*/2);
  EXPECT_TRUE(trained.ok()) << trained.status();
  return trained.ok() ? trained->losses : std::vector<double>();
}

// Online, and from a cache of the frozen components' outputs.
class GpuTrainingTest : public ::testing::TestWithParam<bool> {};

TEST_P(GpuTrainingTest, StableDiffusionAsOnTheCpu) {
  const std::string folder = ::testing::TempDir() + "/scenes";
  BuiltInDatasetOptions scenes;
  scenes.count = 8;
  ASSERT_TRUE(EnsureBuiltInDataset(folder, scenes).ok());
  models::TrainingSetupOptions options;
  options.model_folder = "data/tiny_sd";
  options.data.folder = folder;
  options.num_devices = kDevices;
  options.global_batch = kBatch;
  options.seed = 11;
  const auto setup = models::TrainingSetup::Create(options);
  ASSERT_TRUE(setup.ok()) << setup.status();
  if (GetParam()) {
    const auto cached = (*setup)->BuildCache(/*num_steps=*/2);
    ASSERT_TRUE(cached.ok()) << cached.status();
  }
  const TrainingJob& job = (*setup)->job();

  const auto profile =
      testlib::MadeUpProfile(*job.model, job.compute_dtype, job.frozen_quantum, {1, 2}, /*seed=*/3);
  testlib::PlanRequest request;
  request.strategy = GetParam() ? "offline_cache" : "1f1b";
  request.num_devices = kDevices;
  request.global_batch = kBatch;
  request.num_micro_batches = 2;
  const auto plan = testlib::MakeTestPlan(profile, request);
  ASSERT_TRUE(plan.ok()) << plan.status();

  const std::vector<double> expected = Losses(job, *plan, *Device::PartitionCpu(kDevices));
  cuda::FakeDriver driver;
  driver.HideMemory();
  const std::vector<double> actual =
      Losses(job, *plan, *cuda::CreateVirtualCudaDevices(&driver, kDevices));
  ASSERT_EQ(actual.size(), 2);
  ASSERT_EQ(expected.size(), 2);
  for (int step = 0; step < 2; ++step) {
    EXPECT_NEAR(actual[step], expected[step], 1e-4 * expected[step]) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Frozen, GpuTrainingTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "FromACache" : "Online"; });

}  // namespace
}  // namespace dpipe
