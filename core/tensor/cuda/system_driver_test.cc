#include "core/tensor/cuda/system_driver.h"

#include <memory>
#include <string>
#include <vector>

#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/host_values.h"
#include "core/tensor/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(SystemDriverTest, FindsAGpuOrSaysWhatIsMissing) {
  const auto driver = SystemDriver();
  if (driver.ok()) {
    const auto gpus = (*driver)->Gpus();
    ASSERT_TRUE(gpus.ok()) << gpus.status();
    EXPECT_FALSE(gpus->empty());
    return;
  }
  EXPECT_THAT(std::string(driver.status().message()),
              AnyOf(HasSubstr("no GPU: "), HasSubstr("built without CUDA")));
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto driver = SystemDriver();
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    driver_ = *driver;
  }
  Driver* driver_ = nullptr;
};

std::vector<float> Numbers(int64_t count) {
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i % 1021) - 500.25f;
  return numbers;
}

// Copies, fills, sums and memory of a recording's own, launched on what lies there at the time.
TEST_F(GpuTest, RecordedWorkIsLaunchedAgain) {
  const auto devices = CreateCudaDevices(driver_, 1);
  ASSERT_TRUE(devices.ok()) << devices.status();
  const auto device = (*devices)[0];
  ASSERT_TRUE(device->BindThread().ok());
  const int64_t count = 1000003;
  const std::vector<float> numbers = Numbers(count);
  Tensor from = Tensor::FromHost<float>(device, {count}, numbers);
  Tensor sum;
  const auto work = [&] {
    const Tensor copy = from.Clone();
    sum = Tensor::Zeros(device, {count}, DType::kF32);
    device->Accumulate(sum.raw_data(), copy.raw_data(), count);
    device->Accumulate(sum.raw_data(), from.raw_data(), count);
  };
  const int64_t room = device->graphs()->MeasureMemory(work);
  auto graph = device->graphs()->Record(room, [&] { return work(), absl::OkStatus(); });
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<float> doubled = numbers;
  for (float& x : doubled) x *= 2;
  for (int launch = 0; launch < 3; ++launch) {
    (*graph)->Launch();
    EXPECT_EQ(HostValues(sum), doubled);
  }
  from.CopyFrom(Tensor::FromHost<float>(device, {count}, doubled));
  (*graph)->Launch();
  for (float& x : doubled) x *= 2;
  EXPECT_EQ(HostValues(sum), doubled);
  // What cannot be recorded leaves the stream usable.
  const auto refused = device->graphs()->Record(room, [&] { return device->Synchronize(); });
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(HostValues(from.Clone()), HostValues(from));
  EXPECT_TRUE(device->Synchronize().ok());
}

TEST_F(GpuTest, TensorsComeBackAsTheyWent) {
  const auto devices = CreateCudaDevices(driver_, 1);
  ASSERT_TRUE(devices.ok()) << devices.status();
  const auto device = (*devices)[0];
  ASSERT_TRUE(device->BindThread().ok());
  for (int64_t count : {1, 1000, 5000003}) {
    const std::vector<float> numbers = Numbers(count);
    const Tensor t = Tensor::FromHost<float>(device, {count}, numbers);
    EXPECT_EQ(HostValues(t), numbers);
    EXPECT_EQ(HostValues(t.Clone()), numbers);
    const Tensor host = Tensor::FromHost<float>(Device::Cpu(), {count}, numbers);
    EXPECT_EQ(HostValues(t.To(DType::kBf16).To(DType::kF32)),
              HostValues(host.To(DType::kBf16).To(DType::kF32)));
  }
  EXPECT_TRUE(device->Synchronize().ok()) << device->Synchronize();
}

TEST_F(GpuTest, MemoryIsCountedAndReused) {
  const auto devices = CreateCudaDevices(driver_, 1);
  ASSERT_TRUE(devices.ok()) << devices.status();
  const auto device = (*devices)[0];
  for (int i = 0; i < 3; ++i) {
    const Tensor t = Tensor::Zeros(device, {1 << 20}, DType::kF32);
    EXPECT_EQ(device->allocator().stats().allocated_bytes, 4 << 20);
  }
  ASSERT_TRUE(device->Synchronize().ok());
  const int64_t reserved = device->allocator().stats().reserved_bytes;
  { const Tensor t = Tensor::Zeros(device, {1 << 20}, DType::kF32); }
  EXPECT_EQ(device->allocator().stats().reserved_bytes, reserved);
  device->allocator().ReleaseCache();
  EXPECT_LT(device->allocator().stats().reserved_bytes, 4 << 20);
}

TEST_F(GpuTest, VirtualGpusShareTheirMessages) {
  const auto devices = CreateVirtualCudaDevices(driver_, 2);
  if (devices.status().code() == absl::StatusCode::kUnimplemented) {
    GTEST_SKIP() << devices.status().message();
  }
  ASSERT_TRUE(devices.ok()) << devices.status();
  const auto &first = (*devices)[0], &second = (*devices)[1];
  EXPECT_EQ(CudaDeviceOf(*first).context().multiprocessors,
            CudaDeviceOf(*second).context().multiprocessors);
  ASSERT_TRUE(first->BindThread().ok());
  Tensor total = Tensor::Zeros(second, {100003}, DType::kF32);
  std::vector<float> expected(100003);
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> numbers = Numbers(100003);
    for (size_t k = 0; k < expected.size(); ++k) expected[k] += numbers[k];
    const Tensor made = Tensor::FromHost<float>(first, {100003}, numbers);
    second->WaitFor(*first->RecordEvent());
    const Tensor borrowed = made.On(second);
    second->Accumulate(total.raw_data(), borrowed.raw_data(), total.num_elements());
  }
  EXPECT_EQ(HostValues(total), expected);
  EXPECT_TRUE(first->Synchronize().ok()) << first->Synchronize();
  EXPECT_TRUE(second->Synchronize().ok()) << second->Synchronize();
}

TEST_F(GpuTest, EventsTellTheHostsTime) {
  const auto devices = CreateCudaDevices(driver_, 1);
  ASSERT_TRUE(devices.ok()) << devices.status();
  const auto device = (*devices)[0];
  const Nanos before = MonotonicNow();
  ASSERT_TRUE(device->Synchronize().ok());
  const auto begin = device->RecordEvent();
  const Tensor t = Tensor::Zeros(device, {int64_t{1} << 26}, DType::kF32);
  const auto end = device->RecordEvent();
  ASSERT_TRUE(device->Synchronize().ok());
  const Nanos after = MonotonicNow();
  EXPECT_TRUE(end->done());
  EXPECT_GT(end->time_ns(), begin->time_ns());
  EXPECT_GT(begin->time_ns(), before - kNanosPerMilli);
  EXPECT_LT(end->time_ns(), after + kNanosPerMilli);
}

}  // namespace
}  // namespace dpipe::cuda
