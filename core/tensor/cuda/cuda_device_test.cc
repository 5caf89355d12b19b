#include "core/tensor/cuda/cuda_device.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/philox.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/tensor.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::shared_ptr<Device>> Virtual(FakeDriver* driver, int count) {
  auto devices = CreateVirtualCudaDevices(driver, count);
  EXPECT_TRUE(devices.ok()) << devices.status();
  return *devices;
}

TEST(CudaDeviceTest, TensorsSurviveRoundTrip) {
  FakeDriver driver;
  const auto device = Virtual(&driver, 2)[1];
  EXPECT_EQ(device->name(), "cuda:0/1 of 2");
  const std::vector<float> values = {1, -2, 3.5, 4, 5, 6};
  const Tensor t = Tensor::FromHost<float>(device, {3, 2}, values);
  EXPECT_EQ(HostValues(t), values);
  EXPECT_EQ(HostValues(t.Clone().Slice(1, 2)), (std::vector<float>{3.5, 4}));
  EXPECT_EQ(HostValues(t.To(DType::kBf16).To(DType::kF32)), values);
  EXPECT_EQ(HostValues(Tensor::Zeros(device, {2}, DType::kF32)), (std::vector<float>{0, 0}));
  EXPECT_TRUE(device->Synchronize().ok());
  EXPECT_THAT(driver.violations(), IsEmpty());
}

// The blocks of a launch run in any order, so no block may write memory that another one uses.
TEST(CudaDeviceTest, OverlappingSumsInOneLaunchAreViolations) {
  FakeDriver driver;
  const auto device = Virtual(&driver, 1)[0];
  const Tensor t = Tensor::Zeros(device, {9}, DType::kF32);
  float* const at = t.data<float>();
  const auto violations = [&](const std::vector<OrderedSum>& sums) {
    const size_t before = driver.violations().size();
    device->AddUp(sums);
    EXPECT_TRUE(device->Synchronize().ok());
    return driver.violations().size() - before;
  };
  EXPECT_EQ(violations({{at, {at, at + 3}, 3}, {at + 6, {at + 3, at + 6}, 3}}), 0);
  EXPECT_EQ(violations({{at, {at + 3}, 3}, {at + 2, {at + 5}, 3}}), 1);
  EXPECT_EQ(violations({{at, {at + 3}, 3}, {at + 6, {at + 2}, 3}}), 1);
  EXPECT_EQ(violations({{at, {at + 1}, 3}}), 1);
  EXPECT_THAT(driver.violations(), Each(std::string("a sum with overlapping memory")));
}

TEST(CudaDeviceTest, CopiesBetweenDevicesWaitForSource) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    FakeDriver driver(seed);
    const auto devices = Virtual(&driver, 2);
    Tensor sum = Tensor::FromHost<float>(devices[0], {2}, std::vector<float>{1, 2});
    const Tensor term = Tensor::FromHost<float>(devices[0], {2}, std::vector<float>{10, 20});
    devices[0]->Accumulate(sum.raw_data(), term.raw_data(), 2);
    const Tensor there = sum.CopyTo(devices[1]);
    EXPECT_EQ(HostValues(there), (std::vector<float>{11, 22})) << "seed " << seed;
    EXPECT_THAT(driver.violations(), IsEmpty());
  }
}

// A miniature pipeline. One device creates tensors and drops them; the other one borrows them, uses
// them later and drops them. The streams run in any order.
TEST(CudaDeviceTest, BorrowedTensorsLiveUntilBorrowersWorkIsDone) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    FakeDriver driver(seed);
    const auto devices = Virtual(&driver, 2);
    Tensor total = Tensor::Zeros(devices[1], {64}, DType::kF32);
    for (int i = 0; i < 10; ++i) {
      Tensor message;
      std::shared_ptr<DeviceEvent> ready;
      {
        const Tensor made =
            Tensor::FromHost<float>(devices[0], {64}, std::vector<float>(64, i + 1.0f));
        ready = devices[0]->RecordEvent();
        message = made.ViewOn(devices[1]);
      }
      devices[1]->WaitFor(*ready);
      devices[1]->Accumulate(total.raw_data(), message.raw_data(), 64);
    }
    EXPECT_EQ(HostValues(total), std::vector<float>(64, 55.0f)) << "seed " << seed;
    EXPECT_THAT(driver.violations(), IsEmpty()) << "seed " << seed;
    EXPECT_EQ(devices[0]->allocator().stats().allocated_bytes, 0);
  }
}

TEST(CudaDeviceTest, FirstErrorIsKeptWithDeviceName) {
  FakeDriver driver;
  const auto device = Virtual(&driver, 1)[0];
  Tensor t = Tensor::Zeros(device, {4}, DType::kF32);
  driver.FailNext("Fill");
  t.FillZero();
  driver.FailNext("Copy");
  t.Clone();
  EXPECT_EQ(device->Synchronize().message(), "cuda:0/0 of 1: Fill: injected failure");
  EXPECT_FALSE(device->Synchronize().ok()) << "an error ends the device's use";
}

// After a kernel's error every call of the device is refused, and Synchronize reports that error.
// This also holds for devices that borrow from each other.
TEST(CudaDeviceTest, ProcessSurvivesFailedGpu) {
  FakeDriver driver;
  driver.HideMemory();
  const auto devices = Virtual(&driver, 2);
  Tensor kept = Tensor::FromHost<float>(devices[0], {2}, std::vector<float>{1, 2});
  Tensor borrowed = kept.ViewOn(devices[1]);
  const auto before = devices[0]->RecordEvent();
  driver.Break("an illegal memory access");
  const Tensor none;
  borrowed = none;
  const Tensor made = Tensor::Zeros(devices[0], {2}, DType::kF32);
  const Tensor sent = Tensor::FromHost<float>(devices[0], {2}, std::vector<float>{3, 4});
  EXPECT_EQ(HostValues(made.To(DType::kBf16).To(DType::kF32)), (std::vector<float>{0, 0}));
  const auto event = devices[0]->RecordEvent();
  devices[1]->WaitFor(*event);
  EXPECT_TRUE(event->done());
  EXPECT_TRUE(before->done());
  EXPECT_EQ(event->time_ns(), before->time_ns());
  const Tensor there = made.CopyTo(devices[1]);
  devices[1]->Accumulate(there.raw_data(), there.raw_data(), 2);
  { const Tensor gone = there.ViewOn(devices[0]); }
  EXPECT_FALSE(devices[0]->graphs()->Record(512, [] { return absl::OkStatus(); }).ok());
  for (const auto& device : devices) {
    EXPECT_THAT(std::string(device->Synchronize().message()),
                HasSubstr("an illegal memory access"));
  }
  EXPECT_THAT(driver.violations(), IsEmpty());
}

TEST(CudaDeviceTest, EventsReportHostTime) {
  FakeDriver driver;
  const auto device = Virtual(&driver, 1)[0];
  const Nanos before = MonotonicNow();
  ASSERT_TRUE(device->Synchronize().ok());
  const Nanos anchored = MonotonicNow();
  const auto begin = device->RecordEvent();
  const Tensor t = Tensor::Zeros(device, {4}, DType::kF32);
  const auto end = device->RecordEvent();
  EXPECT_FALSE(end->done());
  ASSERT_TRUE(device->Synchronize().ok());
  EXPECT_TRUE(end->done());
  // The fake GPU takes 1 us each for the first event, the fill and the second event.
  EXPECT_EQ(end->time_ns() - begin->time_ns(), 2000);
  EXPECT_GE(begin->time_ns(), before);
  EXPECT_LE(begin->time_ns(), anchored + 1000);
}

TEST(CudaDeviceTest, SiblingsHaveSeparateMemoryStats) {
  FakeDriver driver;
  const int before = driver.num_live_handles();
  {
    const auto device = Virtual(&driver, 1)[0];
    const auto twin = device->MakeSibling();
    const Tensor t = Tensor::Zeros(twin, {128}, DType::kF32);
    EXPECT_EQ(twin->name(), device->name());
    EXPECT_EQ(twin->allocator().stats().allocated_bytes, 512);
    EXPECT_EQ(device->allocator().stats().allocated_bytes, 0);
  }
  driver.RunAll();
  EXPECT_EQ(driver.num_live_handles(), before);
  EXPECT_EQ(driver.live_bytes(), 0);
}

// Like the device of a session after its model was profiled on the worker's device.
TEST(CudaDeviceTest, SiblingsReuseMemoryCachedByDevice) {
  FakeDriver driver;
  driver.set_memory_limit(1 << 20);
  const auto device = Virtual(&driver, 1)[0];
  { const Tensor profiled = Tensor::Zeros(device, {3 << 16}, DType::kF32); }
  const auto twin = device->MakeSibling();
  const Tensor trained = Tensor::Zeros(twin, {1 << 18}, DType::kF32);
  EXPECT_EQ(device->allocator().stats().reserved_bytes, 0);
  EXPECT_TRUE(twin->Synchronize().ok());
  EXPECT_THAT(driver.violations(), IsEmpty());
}

// A share's context is current to one thread at a time: the thread that works on it, not the thread
// that created it.
TEST(CudaDeviceTest, CreatorOfSharesDoesNotBindThem) {
  FakeDriver driver;
  const auto devices = Virtual(&driver, 2);
  std::vector<std::thread> threads;
  for (const auto& device : devices) {
    threads.emplace_back([device] {
      EXPECT_TRUE(device->BindThread().ok());
      const auto twin = device->MakeSibling();
      Tensor t = Tensor::Zeros(twin, {4}, DType::kF32);
      twin->Accumulate(t.raw_data(), t.raw_data(), 4);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(driver.violations(), IsEmpty());
}

TEST(CudaDeviceTest, AttachedObjectsAreCreatedOnceAndDieWithDevice) {
  struct Handle {
    explicit Handle(int* count) : live(count) { ++*live; }
    ~Handle() { --*live; }
    int* live;
  };
  FakeDriver driver;
  int live = 0;
  {
    const auto device = Virtual(&driver, 1)[0];
    CudaDevice& cuda = CudaDeviceOf(*device);
    const auto make = [&]() -> absl::StatusOr<std::unique_ptr<Handle>> {
      return std::make_unique<Handle>(&live);
    };
    EXPECT_EQ(*cuda.Attached<Handle>(make), *cuda.Attached<Handle>(make));
    EXPECT_EQ(live, 1);
  }
  EXPECT_EQ(live, 0);
}

// The device is destroyed by a thread that works for another GPU.
TEST(CudaDeviceTest, AttachedObjectsDieAfterWorkInTheirContext) {
  struct Handle {
    ~Handle() { at_end(); }
    std::function<void()> at_end;
  };
  FakeDriver driver;
  driver.SetNumGpus(2);
  const auto other = (*CreateCudaDevices(&driver, 1))[0];
  auto device = (*CreateCudaDevices(&driver, 1, /*first=*/1))[0];
  ASSERT_TRUE(other->BindThread().ok());
  CudaDevice& cuda = CudaDeviceOf(*device);
  bool used = false, ended = false;
  const auto at_end = [&] {
    ended = true;
    EXPECT_TRUE(used);
    EXPECT_EQ(driver.current()->gpu, 1);
  };
  ASSERT_TRUE(cuda.Attached<Handle>([&]() -> absl::StatusOr<std::unique_ptr<Handle>> {
                    return std::unique_ptr<Handle>(new Handle{at_end});
                  })
                  .ok());
  ASSERT_TRUE(driver.Enqueue(cuda.stream(), [&] { used = true; }).ok());
  device = nullptr;
  EXPECT_TRUE(ended);
  EXPECT_EQ(driver.current()->gpu, 0);
}

TEST(CreateCudaDevicesTest, TooFewGpusAreListedInError) {
  FakeDriver driver;
  EXPECT_EQ((*CreateCudaDevices(&driver, 1))[0]->name(), "cuda:0");
  EXPECT_THAT(std::string(CreateCudaDevices(&driver, 4).status().message()),
              AllOf(HasSubstr("requested 4 GPUs, but there is 1: GPU 0 (Fake GPU"),
                    HasSubstr("132 multiprocessors")));
  driver.gpus().clear();
  EXPECT_EQ(CreateCudaDevices(&driver, 1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CreateVirtualCudaDevices(&driver, 2).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace dpipe::cuda
