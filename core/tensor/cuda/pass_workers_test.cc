#include "core/tensor/pass_workers.h"

#include <memory>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/host/usable_cpus.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<DeviceWorker*> Pointers(const std::vector<std::unique_ptr<DeviceWorker>>& workers) {
  std::vector<DeviceWorker*> pointers;
  for (const auto& worker : workers) pointers.push_back(worker.get());
  return pointers;
}

TEST(PassWorkersTest, AllCpuWorkersAreChosen) {
  const auto workers =
      StartWorkers(std::vector<std::shared_ptr<Device>>{Device::Cpu(), Device::Cpu()});
  const auto chosen = PassWorkers::Choose(Pointers(workers), /*size_bytes=*/int64_t{1} << 60);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->workers(), Pointers(workers));
}

class PassWorkersOnAGpuTest : public ::testing::Test {
 protected:
  // Creates two virtual GPUs on a GPU of `limit_bytes`, the first with a tensor of `live_bytes`.
  void Start(int64_t live_bytes, int64_t limit_bytes) {
    driver_.HideMemory();  // so that its gigabytes use no host memory
    devices_ = *CreateVirtualCudaDevices(&driver_, 2);
    live_ = Tensor::Zeros(devices_[0], {live_bytes / 4}, DType::kF32);
    driver_.set_memory_limit(limit_bytes);
    workers_ = StartWorkers(devices_);
  }
  ~PassWorkersOnAGpuTest() override {
    for (const auto& device : devices_) EXPECT_TRUE(device->Synchronize().ok());
    EXPECT_THAT(driver_.violations(), IsEmpty());
  }

  FakeDriver driver_;
  std::vector<std::shared_ptr<Device>> devices_;
  Tensor live_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
};

TEST_F(PassWorkersOnAGpuTest, ChoosesWorkersThatFitTogether) {
  Start(/*live_bytes=*/1 << 20, /*limit_bytes=*/5 * kGiB);
  const int64_t peak = devices_[0]->allocator().stats().peak_bytes;
  const auto both = PassWorkers::Choose(Pointers(workers_), kGiB);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->workers(), Pointers(workers_));
  // Each alone would have room, but they share one GPU.
  const auto one = PassWorkers::Choose(Pointers(workers_), 2 * kGiB);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->workers().size(), 1);
  EXPECT_EQ(one->workers()[0]->device()->kind(), DeviceKind::kCuda);
  EXPECT_THAT(devices_[0]->notes(), IsEmpty());
  // All memory is freed again.
  driver_.RunAll();
  EXPECT_EQ(driver_.live_bytes(), 1 << 20);
  EXPECT_EQ(devices_[0]->allocator().stats().allocated_bytes, 1 << 20);
  EXPECT_EQ(devices_[0]->allocator().stats().peak_bytes, peak);
}

TEST_F(PassWorkersOnAGpuTest, MemoryCachedByPassesIsReturned) {
  Start(/*live_bytes=*/1 << 20, /*limit_bytes=*/5 * kGiB);
  {
    const auto chosen = PassWorkers::Choose(Pointers(workers_), kGiB);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    const auto made = RunOnAll(chosen->workers(), [&](int i) {
      const Tensor pass = Tensor::Zeros(devices_[i], {1 << 20}, DType::kF32);
      return absl::OkStatus();
    });
    ASSERT_TRUE(FirstError(made).ok());
    EXPECT_EQ(devices_[1]->allocator().stats().reserved_bytes, 4 << 20);
  }
  EXPECT_EQ(devices_[0]->allocator().stats().reserved_bytes, 1 << 20);
  EXPECT_EQ(devices_[1]->allocator().stats().reserved_bytes, 0);
}

TEST_F(PassWorkersOnAGpuTest, UsesCpuCoresIfNoGpuFits) {
  Start(/*live_bytes=*/1 << 20, /*limit_bytes=*/kGiB);
  const auto chosen = PassWorkers::Choose(Pointers(workers_), 3 * kGiB);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->workers().size(), FindUsableCpus().count);
  for (DeviceWorker* worker : chosen->workers()) {
    EXPECT_TRUE(worker->device()->has_host_memory()) << worker->device()->name();
  }
  EXPECT_THAT(devices_[0]->notes(), ElementsAre(AllOf(HasSubstr("4.0 GiB"), HasSubstr("CPU"))));
}

TEST_F(PassWorkersOnAGpuTest, HostDeviceIsTheCpu) {
  Start(/*live_bytes=*/1 << 20, /*limit_bytes=*/kGiB);
  EXPECT_TRUE(HostDeviceFor(devices_[0])->has_host_memory());
  const auto cpu = Device::Cpu();
  EXPECT_EQ(HostDeviceFor(cpu), cpu);
}

}  // namespace
}  // namespace dpipe::cuda
