#include "core/ops/cuda/parity.h"

#include <cstdlib>
#include <random>
#include <string>

#include "core/base/status.h"
#include "core/ops/cuda/emulated_gpu/emulated_device.h"
#include "core/ops/cuda/emulated_gpu/emulation.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/system_driver.h"

namespace dpipe::ops::cuda {
namespace {

uint64_t SeedOfThisRun() {
  const char* const asked = std::getenv("DPIPE_PARITY_SEED");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : std::random_device()();
}

absl::StatusOr<std::shared_ptr<Device>> DeviceAskedFor() {
  const char* const asked = std::getenv("DPIPE_PARITY_DEVICE");
  if (asked == nullptr || std::string(asked) != "gpu") return std::make_shared<EmulatedDevice>();
  DPIPE_RETURN_IF_ERROR(dpipe::cuda::CheckPrecision());
  DPIPE_ASSIGN_OR_RETURN(dpipe::cuda::Driver * driver, dpipe::cuda::SystemDriver());
  DPIPE_ASSIGN_OR_RETURN(const auto devices, dpipe::cuda::CreateCudaDevices(driver, 1));
  DPIPE_RETURN_IF_ERROR(devices[0]->BindThread());
  return devices[0];
}

}  // namespace

void ParityTest::SetUp() {
  static const uint64_t seed = SeedOfThisRun();
  seed_ = seed;
  const absl::StatusOr<std::shared_ptr<Device>> device = DeviceAskedFor();
  ASSERT_FALSE(absl::IsInvalidArgument(device.status())) << device.status();
  if (!device.ok()) GTEST_SKIP() << device.status();
  device_ = *device;
  device_->allocator().set_poison(true);
}

Tensor ParityTest::Random(const Shape& shape, DType dtype, float scale, float offset) {
  return RandomTensor(host_, shape, dtype, seed_ + 1000 * ++drawn_, scale, offset);
}

ParityTest::Tensors ParityTest::Run(const std::shared_ptr<Device>& device, const Tensors& inputs,
                                    const Op& op) {
  Tensors there;
  for (const Tensor& input : inputs) there.push_back(OnDevice(device, input));
  const absl::StatusOr<Tensors> outputs = op(there);
  const absl::Status finished = device->Synchronize();
  EXPECT_TRUE(finished.ok()) << finished;
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  if (!outputs.ok()) return {};
  Tensors here;
  for (const Tensor& output : *outputs) here.push_back(OnDevice(host_, output));
  // Inputs that an op only reads must be unchanged.
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) ExpectSameBits(OnDevice(host_, there[i]), inputs[i]);
  }
  return here;
}

void ParityTest::ExpectParity(const Tensors& inputs, Tolerance tolerance, const Op& op) {
  SCOPED_TRACE("DPIPE_PARITY_SEED=" + std::to_string(seed_));
  emulation::SetOrder(0);
  const Tensors expected = Run(host_, inputs, op), actual = Run(device_, inputs, op);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    const double rounding = actual[i].dtype() == DType::kBf16 ? 1.0 / 128 : 0;
    ExpectClose(actual[i], expected[i], {tolerance.relative + rounding, tolerance.absolute});
  }
  for (uint64_t order : {seed_ | 1, seed_ + 2}) {
    emulation::SetOrder(order);
    const Tensors again = Run(device_, inputs, op);
    ASSERT_EQ(again.size(), actual.size());
    for (size_t i = 0; i < actual.size(); ++i) ExpectSameBits(again[i], actual[i]);
  }
  emulation::SetOrder(0);
}

}  // namespace dpipe::ops::cuda
