// Tests of devices on this machine's GPUs. They also run with the fake driver, which detects calls
// that CUDA forbids.
#include "core/tensor/cuda/system_driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/tensor.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SystemDriverTest, FindsGpuOrReportsWhatIsMissing) {
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

// True if this process has a primary context on that GPU.
bool HasContext(int gpu) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  using GetState = int (*)(int gpu, unsigned* flags, int* active);
  const auto get_state = reinterpret_cast<GetState>(dlsym(library, "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(get_state(gpu, &flags, &active), 0);
  return active != 0;
}

// Does everything on GPU 1 that a thread without a context may do, including the destruction of the
// device.
void UseGpu1(Driver* driver) {
  std::shared_ptr<Device> device = (*CreateCudaDevices(driver, 1, /*first=*/1))[0];
  const auto use = [&] {
    const Tensor t = Tensor::FromHost<float>(device, {2}, std::vector<float>{1, 2});
    device->Accumulate(t.raw_data(), t.raw_data(), 2);
    const auto event = device->RecordEvent();
    device->WaitFor(*event);
    EXPECT_EQ(HostValues(t.To(DType::kBf16).To(DType::kF32)), (std::vector<float>{2, 4}));
    EXPECT_TRUE(event->done());
    EXPECT_GT(event->time_ns(), 0);
    EXPECT_GT(device->allocator().stats().reserved_bytes, 0);
    device->allocator().ReleaseCache();
    const auto graph = device->graphs()->Record(512, [&] {
      device->FillZero(t.raw_data(), t.size_bytes());
      return absl::OkStatus();
    });
    EXPECT_TRUE(graph.ok()) << graph.status();
    (*graph)->Launch();
    EXPECT_EQ(HostValues(t), (std::vector<float>{0, 0}));
    EXPECT_TRUE(device->Synchronize().ok());
  };
  std::thread(use).join();
  std::thread([&] { device = nullptr; }).join();
}

// Runs in a separate process, because other tests use GPU 0.
TEST(SystemDriverDeathTest, ThreadsWithoutContextCreateNoneOnGpu0) {
  const auto driver = SystemDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  const auto gpus = (*driver)->Gpus();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  if (gpus->size() < 2) GTEST_SKIP() << "two GPUs are needed, " << DescribeGpus(*gpus);
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        UseGpu1(*driver);
        std::exit(HasContext(1) && !HasContext(0) && !testing::Test::HasFailure() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

enum class Kind { kFake, kSystem };

class GpuTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kFake) {
      fake_ = std::make_unique<FakeDriver>();
      fake_->SetNumGpus(2);
      driver_ = fake_.get();
      return;
    }
    const auto driver = SystemDriver();
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    driver_ = *driver;
  }
  void TearDown() override {
    if (fake_ == nullptr) return;
    fake_->RunAll();
    EXPECT_THAT(fake_->violations(), IsEmpty());
  }

  std::unique_ptr<FakeDriver> fake_;
  Driver* driver_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Drivers, GpuTest, ::testing::Values(Kind::kFake, Kind::kSystem),
                         [](const auto& info) -> std::string {
                           return info.param == Kind::kFake ? "Fake" : "System";
                         });

std::vector<float> Numbers(int64_t count) {
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i % 1021) - 500.25f;
  return numbers;
}

// Small and large sums in one call, at odd addresses, some into their own first term.
TEST_P(GpuTest, ManySumsAreAddedUpInOrder) {
  const auto devices = CreateCudaDevices(driver_, 1);
  ASSERT_TRUE(devices.ok()) << devices.status();
  const auto device = (*devices)[0];
  ASSERT_TRUE(device->BindThread().ok());
  const auto cpu = Device::Cpu();
  constexpr int64_t kSize = 100003;
  // The magnitudes are such that another order would give different bits.
  std::vector<float> numbers = Numbers(kSize);
  for (int64_t i = 0; i < kSize; ++i) numbers[i] *= i % 3 == 0 ? 1e-4f : 1e3f;
  const auto add_up = [&](const std::shared_ptr<Device>& where) {
    const Tensor terms = Tensor::FromHost<float>(where, {kSize}, numbers);
    std::vector<Tensor> sums;
    std::vector<OrderedSum> ordered;
    for (int s = 0; s < 150; ++s) {
      const int64_t count = s % 50 == 7 ? 90001 : s * 13 % 300;
      sums.push_back(Tensor::FromHost<float>(where, {count},
                                             {numbers.data() + s, static_cast<size_t>(count)}));
      float* const sum = sums.back().data<float>();
      ordered.push_back({sum, {}, count, /*adds=*/s % 4 == 0});
      if (s % 5 == 0) ordered.back().terms.push_back(sum);
      for (int t = 0; t < 1 + s % 9; ++t) {
        ordered.back().terms.push_back(terms.data<float>() + 977 * t + s);
      }
    }
    where->AddUp(ordered);
    std::vector<std::vector<float>> values;
    for (const Tensor& sum : sums) values.push_back(HostValues(sum));
    return values;
  };
  EXPECT_EQ(add_up(device), add_up(cpu));
}

// Copies, fills, sums and memory of the recording itself. Launches use the current contents of the
// memory.
TEST_P(GpuTest, RecordedWorkCanBeLaunchedAgain) {
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
  // A failed recording leaves the stream usable.
  const auto refused = device->graphs()->Record(room, [&] { return device->Synchronize(); });
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(HostValues(from.Clone()), HostValues(from));
  EXPECT_TRUE(device->Synchronize().ok());
}

TEST_P(GpuTest, TensorsSurviveRoundTrip) {
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

TEST_P(GpuTest, MemoryIsCountedAndReused) {
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

TEST_P(GpuTest, DeviceGetsMemoryCachedByAnother) {
  const auto devices = CreateCudaDevices(driver_, 1);
  ASSERT_TRUE(devices.ok()) << devices.status();
  const auto device = (*devices)[0], twin = device->MakeSibling();
  int64_t size_bytes = (*driver_->Gpus())[0].memory_bytes / 5 * 3;
  if (fake_ != nullptr) {
    size_bytes = 3 << 20;
    fake_->set_memory_limit(5 << 20);
  }
  bool had = false;
  for (const auto& one : {device, twin, device}) {
    void* const data = one->allocator().AllocateIfRoom(size_bytes);
    if (data == nullptr && !had) GTEST_SKIP() << "other processes use the GPU's memory";
    ASSERT_NE(data, nullptr);
    had = true;
    one->FillZero(data, 1 << 20);
    one->allocator().Free(data, size_bytes);
    EXPECT_TRUE(one->Synchronize().ok()) << one->Synchronize();
  }
}

// From threads that have the context of any share current, or none.
TEST_P(GpuTest, AnyThreadMayCreateEventsOfShares) {
  const auto devices = CreateVirtualCudaDevices(driver_, 2);
  if (devices.status().code() == absl::StatusCode::kUnimplemented) {
    GTEST_SKIP() << devices.status().message();
  }
  ASSERT_TRUE(devices.ok()) << devices.status();
  const std::shared_ptr<Device> first = (*devices)[0], second = (*devices)[1];
  const std::vector<float> numbers = Numbers(1000);
  const auto use = [&](const std::shared_ptr<Device>& bound) {
    if (bound != nullptr) {
      EXPECT_TRUE(bound->BindThread().ok());
    }
    const Tensor made = Tensor::FromHost<float>(first, {1000}, numbers);
    const auto event = first->RecordEvent();
    second->WaitFor(*event);
    EXPECT_EQ(HostValues(made.CopyTo(second).To(DType::kBf16)), HostValues(made.To(DType::kBf16)));
    EXPECT_TRUE(event->done());
    for (const auto& device : *devices) {
      EXPECT_TRUE(device->Synchronize().ok()) << device->Synchronize();
    }
  };
  for (const auto& bound : {std::shared_ptr<Device>(), first, second}) {
    std::thread(use, bound).join();
  }
}

// The error of a call is not mistaken for an error of the next kernel launch. The test uses a lack
// of memory, which a GPU reports at once and survives. A bad address may be detected later, and
// makes the GPU unusable.
TEST_P(GpuTest, ErrorsAreReportedOnce) {
  const auto devices = CreateCudaDevices(driver_, 1);
  ASSERT_TRUE(devices.ok()) << devices.status();
  const CudaDevice& device = CudaDeviceOf(*(*devices)[0]);
  const Tensor t = Tensor::FromHost<float>((*devices)[0], {2}, std::vector<float>{1, 2});
  const auto pool = driver_->CreatePool(device.context());
  ASSERT_TRUE(pool.ok()) << pool.status();
  if (fake_ != nullptr) fake_->set_memory_limit(1 << 30);
  const auto refused = driver_->Allocate(*pool, int64_t{1} << 60, device.stream());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  EXPECT_TRUE(
      driver_->AddUp({{t.data<float>(), {t.data<float>()}, 2, true}}, device.stream()).ok());
  EXPECT_EQ(HostValues(t), (std::vector<float>{2, 4}));
  driver_->DestroyPool(*pool);
}

TEST_P(GpuTest, VirtualGpusShareTheirMessages) {
  const auto devices = CreateVirtualCudaDevices(driver_, 2);
  if (devices.status().code() == absl::StatusCode::kUnimplemented) {
    GTEST_SKIP() << devices.status().message();
  }
  ASSERT_TRUE(devices.ok()) << devices.status();
  const auto &first = (*devices)[0], &second = (*devices)[1];
  EXPECT_EQ(CudaDeviceOf(*first).context().multiprocessors,
            CudaDeviceOf(*second).context().multiprocessors);
  ASSERT_TRUE(second->BindThread().ok());  // its kernels are launched here
  Tensor total = Tensor::Zeros(second, {100003}, DType::kF32);
  std::vector<float> expected(100003);
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> numbers = Numbers(100003);
    for (size_t k = 0; k < expected.size(); ++k) expected[k] += numbers[k];
    const Tensor made = Tensor::FromHost<float>(first, {100003}, numbers);
    second->WaitFor(*first->RecordEvent());
    const Tensor borrowed = made.ViewOn(second);
    second->Accumulate(total.raw_data(), borrowed.raw_data(), total.num_elements());
  }
  EXPECT_EQ(HostValues(total), expected);
  EXPECT_TRUE(first->Synchronize().ok()) << first->Synchronize();
  EXPECT_TRUE(second->Synchronize().ok()) << second->Synchronize();
}

// From threads of either GPU, and from one without a context.
TEST_P(GpuTest, TensorsAreCopiedBetweenGpus) {
  const auto gpus = driver_->Gpus();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  if (gpus->size() < 2) GTEST_SKIP() << "two GPUs are needed, " << DescribeGpus(*gpus);
  const auto devices = CreateCudaDevices(driver_, 2);
  ASSERT_TRUE(devices.ok()) << devices.status();
  const std::vector<float> numbers = Numbers(5000003);
  const int64_t count = static_cast<int64_t>(numbers.size());
  const auto there_and_back = [&] {
    const Tensor first = Tensor::FromHost<float>((*devices)[0], {count}, numbers);
    const Tensor second = first.CopyTo((*devices)[1]);
    EXPECT_EQ(HostValues(second), numbers);
    EXPECT_EQ(HostValues(second.CopyTo((*devices)[0])), numbers);
    EXPECT_EQ(HostValues(Tensor::Zeros((*devices)[1], {3}, DType::kF32)), std::vector<float>(3));
  };
  for (const auto& device : *devices) {
    ASSERT_TRUE(device->BindThread().ok());
    there_and_back();
  }
  std::thread(there_and_back).join();
  for (const auto& device : *devices) {
    EXPECT_TRUE(device->Synchronize().ok()) << device->Synchronize();
  }
}

// The host runs ahead of the device during the delay.
TEST_P(GpuTest, DelayComesBetweenSurroundingWork) {
  const auto devices = CreateCudaDevices(driver_, 1);
  ASSERT_TRUE(devices.ok()) << devices.status();
  const auto device = (*devices)[0];
  ASSERT_TRUE(device->BindThread().ok());
  const auto begin = device->RecordEvent();
  CudaDeviceOf(*device).Delay(20 * kNanosPerMilli);
  const auto end = device->RecordEvent();
  if (fake_ == nullptr) {
    EXPECT_FALSE(end->done());
  }
  ASSERT_TRUE(device->Synchronize().ok());
  // The GPU's timer may tick only once per millisecond.
  EXPECT_GE(end->time_ns() - begin->time_ns(), 19 * kNanosPerMilli);
}

TEST_P(GpuTest, EventsReportHostTime) {
  if (fake_ != nullptr) GTEST_SKIP() << "a fake driver has its own clock";
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
