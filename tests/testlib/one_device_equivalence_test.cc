#include "tests/testlib/one_device_equivalence.h"

#include <memory>
#include <utility>

#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/fake_gpus.h"
#include "tests/testlib/toy_model.h"

namespace dpipe::testlib {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kDevices = 2;
constexpr int kSteps = 2;

class OneDeviceEquivalenceTest : public ::testing::Test {
 protected:
  OneDeviceEquivalenceTest()
      : model_(MakeToyModel({})),
        parameters_(MakeToyParameters(model_, /*seed=*/5)),
        inputs_(&model_, /*seed=*/9, DType::kF32) {
    job_.model = &model_;
    job_.inputs = &inputs_;
    job_.frozen_parameters = parameters_.frozen_pointers;
    job_.backbone_parameters = nn::SourceOf(parameters_.backbone);
  }
  void RunOn(const std::vector<std::shared_ptr<Device>>& devices) {
    workers_ = StartWorkers(devices);
    job_.workers.clear();
    for (const auto& worker : workers_) job_.workers.push_back(worker.get());
  }

  nn::Model model_;
  ToyParameters parameters_;
  ToyInputs inputs_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  TrainingJob job_;
};

TEST_F(OneDeviceEquivalenceTest, PipelinesAgreeAndLearn) {
  RunOn({kDevices, Device::Cpu()});
  const auto equivalence = OneDeviceEquivalence::Create(job_, {4, 2}, kSteps);
  ASSERT_TRUE(equivalence.ok()) << equivalence.status();
  EXPECT_EQ(equivalence->expected().size(), kSteps);
  EXPECT_NE(equivalence->expected()[0].sample_losses, equivalence->expected()[1].sample_losses);
  for (const char* strategy : {"1f1b", "gpipe", "zb-h1"}) {
    const auto difference = equivalence->FirstDifferenceOf(strategy);
    ASSERT_TRUE(difference.ok()) << strategy << ": " << difference.status();
    EXPECT_EQ(*difference, "") << strategy;
  }
}

// The host cannot read their memory.
TEST_F(OneDeviceEquivalenceTest, OnVirtualGpusOfAFakeDriver) {
  cuda::FakeDriver driver;
  driver.HideMemory();
  RunOn(*cuda::CreateVirtualCudaDevices(&driver, kDevices));
  job_.connect = ConnectPeers;
  const auto equivalence = OneDeviceEquivalence::Create(job_, {4, 1}, kSteps);
  ASSERT_TRUE(equivalence.ok()) << equivalence.status();
  const auto difference = equivalence->FirstDifferenceOf("diffusionpipe");
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_EQ(*difference, "");
  workers_.clear();  // before their driver
  EXPECT_THAT(driver.violations(), IsEmpty());
}

// The sums of two halves differ from those of four quarters, so the order of sums matters.
TEST_F(OneDeviceEquivalenceTest, DifferentMicroBatchesGiveDifferentBits) {
  RunOn({kDevices, Device::Cpu()});
  const auto quarters = OneDeviceEquivalence::Create(job_, {4, 2}, kSteps);
  const auto halves = OneDeviceEquivalence::Create(job_, {2, 4}, kSteps);
  ASSERT_TRUE(quarters.ok() && halves.ok()) << quarters.status() << halves.status();
  EXPECT_THAT(FirstDifference(quarters->expected(), halves->expected()), HasSubstr("step 0"));
  EXPECT_LT(LargestRelativeDifference(quarters->expected(), halves->expected()), 1e-4);
}

// The job changes after Create, and the difference is reported.
TEST_F(OneDeviceEquivalenceTest, DetectsDifferentWeights) {
  RunOn({kDevices, Device::Cpu()});
  const auto equivalence = OneDeviceEquivalence::Create(job_, {4, 1}, kSteps);
  ASSERT_TRUE(equivalence.ok()) << equivalence.status();
  std::map<std::string, Tensor> other = parameters_.backbone;
  Tensor& weights = other.begin()->second;
  weights = weights.Clone();
  weights.data<float>()[0] += 1e-3f;
  job_.backbone_parameters = nn::SourceOf(other);
  const auto difference = equivalence->FirstDifferenceOf("1f1b");
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_THAT(*difference, HasSubstr("step 0"));
}

TEST_F(OneDeviceEquivalenceTest, RefusesPlansThatSumInAnotherOrder) {
  RunOn({kDevices, Device::Cpu()});
  const auto equivalence = OneDeviceEquivalence::Create(job_, {4, 1}, kSteps);
  ASSERT_TRUE(equivalence.ok()) << equivalence.status();
  const auto refused = equivalence->FirstDifferenceOf("chimera");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << refused.status();
}

}  // namespace
}  // namespace dpipe::testlib
