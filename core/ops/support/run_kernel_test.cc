#include "absl/status/status.h"
#include "core/ops/cuda/emulated_gpu/emulated_device.h"
#include "core/ops/support/backend.h"
#include "gtest/gtest.h"

namespace dpipe::ops {
namespace {

struct TestKernels {
  void (*name)(int number, std::string* result);
  absl::Status (*fails)();
  void (*missing)();

  static const TestKernels kReference, kCpu, kCuda;
};

template <char kDevice>
void Name(int number, std::string* result) {
  *result = kDevice + std::to_string(number);
}
absl::Status Fails() { return absl::DataLossError("lost"); }

const TestKernels TestKernels::kReference = {Name<'r'>, Fails, nullptr};
const TestKernels TestKernels::kCpu = {Name<'c'>, Fails, nullptr};
const TestKernels TestKernels::kCuda = {Name<'g'>, Fails, nullptr};

class RunKernelTest : public ::testing::Test {
 protected:
  const std::shared_ptr<Device> devices_[3] = {Device::CpuReference(), Device::Cpu(),
                                               std::make_shared<cuda::EmulatedDevice>()};
};

TEST_F(RunKernelTest, CallsTheKernelOfTheDevice) {
  const char* const expected[] = {"r7", "c7", "g7"};
  for (int i = 0; i < 3; ++i) {
    std::string result;
    EXPECT_TRUE(RunKernel(*devices_[i], "name", &TestKernels::name, 7, &result).ok());
    EXPECT_EQ(result, expected[i]);
  }
}

TEST_F(RunKernelTest, ReturnsTheKernelsError) {
  for (const auto& device : devices_) {
    EXPECT_EQ(RunKernel(*device, "fails", &TestKernels::fails), absl::DataLossError("lost"));
  }
}

TEST_F(RunKernelTest, MissingKernelNamesOpAndDevice) {
  for (const auto& device : devices_) {
    EXPECT_EQ(RunKernel(*device, "an op", &TestKernels::missing),
              absl::UnimplementedError("an op has no kernel for " + device->name()));
  }
}

}  // namespace
}  // namespace dpipe::ops
