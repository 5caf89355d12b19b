// Trains a small but real Stable Diffusion in pipelines over virtual GPUs. Every gradient is
// bit-identical to that of one virtual GPU of the same size. Runs on a GPU if DPIPE_PARITY_DEVICE
// is "gpu", otherwise on CPU devices.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/tensor/cuda/system_driver.h"
#include "data/scenes/generator.h"
#include "gtest/gtest.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/one_device_equivalence.h"

namespace dpipe {
namespace {

constexpr int kSteps = 2;  // the second one's gradients depend on the first one's update
constexpr int kMicroBatches = 8;

bool OnGpu() {
  const char* const asked = std::getenv("DPIPE_PARITY_DEVICE");
  return asked != nullptr && std::string(asked) == "gpu";
}

// Number of virtual GPUs, and the compute type.
class VirtualGpuEquivalenceTest : public ::testing::TestWithParam<std::tuple<int, DType>> {
 protected:
  void SetUp() override {
    const auto& [num_devices, dtype] = GetParam();
    if (OnGpu()) {
      const auto driver = cuda::SystemDriver();
      if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    }
    BuiltInDatasetOptions scenes;
    scenes.count = 2 * kMicroBatches;
    models::TrainingSetupOptions options;
    options.model_folder = "data/tiny_sd";
    options.data.folder = ::testing::TempDir() + "/scenes";
    const absl::Status made = EnsureBuiltInDataset(options.data.folder, scenes);
    ASSERT_TRUE(made.ok()) << made;
    options.backend = OnGpu() ? "cuda" : "cpu";
    options.num_devices = OnGpu() ? num_devices : 1;
    options.virtual_devices = OnGpu() ? num_devices : 0;
    options.deterministic = true;
    options.global_batch = kMicroBatches;
    options.compute_dtype = dtype;
    options.frozen_quantum = 2;
    options.seed = 6;
    auto setup = models::TrainingSetup::Create(options);
    if (OnGpu() && setup.status().code() == absl::StatusCode::kUnimplemented) {
      GTEST_SKIP() << setup.status().message();  // a driver that cannot divide GPUs
    }
    ASSERT_TRUE(setup.ok()) << setup.status();
    setup_ = *std::move(setup);
    job_ = setup_->job();
    if (OnGpu()) return;
    cpus_ = StartWorkers(std::vector<std::shared_ptr<Device>>(num_devices, Device::Cpu()));
    job_.workers.clear();
    for (const auto& cpu : cpus_) job_.workers.push_back(cpu.get());
  }

  std::unique_ptr<models::TrainingSetup> setup_;
  std::vector<std::unique_ptr<DeviceWorker>> cpus_;
  TrainingJob job_;
};

double LargestGradient(const testlib::StepGradients& step) {
  double largest = 0;
  for (const auto& [name, gradient] : step.gradients) {
    for (const float value : gradient.span<float>()) {
      if (!std::isfinite(value)) return value;
      largest = std::max<double>(largest, std::abs(value));
    }
  }
  return largest;
}

TEST_P(VirtualGpuEquivalenceTest, PipelinesAreBitIdenticalToOneDevice) {
  const auto equivalence =
      testlib::OneDeviceEquivalence::Create(job_, {kMicroBatches, /*size=*/1}, kSteps);
  ASSERT_TRUE(equivalence.ok()) << equivalence.status();
  // Checks that the gradients are not trivially equal.
  for (const testlib::StepGradients& step : equivalence->expected()) {
    const double largest = LargestGradient(step);
    EXPECT_TRUE(std::isfinite(largest) && largest > 0) << largest;
  }
  for (const char* strategy : {"1f1b", "gpipe", "interleaved", "diffusionpipe", "zb-h1", "zb-v",
                               "wave", "1f1b,recompute=full"}) {
    const auto difference = equivalence->FirstDifferenceOf(strategy);
    ASSERT_TRUE(difference.ok()) << strategy << ": " << difference.status();
    EXPECT_EQ(*difference, "") << strategy;
  }
  for (const std::string& note : setup_->TakeDeviceNotes()) std::cout << note << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Sizes, VirtualGpuEquivalenceTest,
                         ::testing::Combine(::testing::Values(2, 4),
                                            ::testing::Values(DType::kF32, DType::kBf16)),
                         [](const auto& info) {
                           return "On" + std::to_string(std::get<0>(info.param)) + "In" +
                                  std::string(DTypeName(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace dpipe
