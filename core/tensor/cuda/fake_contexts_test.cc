#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/tensor.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename F>
void OnAnotherThread(const F& f) {
  std::thread(f).join();
}

// Launches a kernel that uses `t`, as an op would.
void Launch(FakeDriver* driver, const Tensor& t) {
  void* const data = t.raw_data();
  driver->EnqueueKernel(
      CudaDeviceOf(*t.device()).stream(), [] {}, &data, sizeof(data));
}

TEST(FakeContextsTest, GreenContextIsCurrentToOneThreadAtATime) {
  FakeDriver driver;
  const auto contexts = *driver.Divide(0, 2, 64);
  ASSERT_TRUE(driver.MakeCurrent(contexts[0]).ok());
  OnAnotherThread([&] { EXPECT_TRUE(driver.MakeCurrent(contexts[1]).ok()); });
  // The thread that has it may bind it again, and so may another thread once the first has ended.
  EXPECT_TRUE(driver.MakeCurrent(contexts[0]).ok());
  OnAnotherThread([&] { EXPECT_TRUE(driver.MakeCurrent(contexts[1]).ok()); });
  EXPECT_THAT(driver.violations(), IsEmpty());
  OnAnotherThread([&] { EXPECT_TRUE(driver.MakeCurrent(contexts[0]).ok()); });
  EXPECT_THAT(driver.violations(), ElementsAre(HasSubstr("current to a second thread")));
}

TEST(FakeContextsTest, KernelsNeedContextOfTheirGpu) {
  FakeDriver driver;
  driver.SetNumGpus(2);
  const auto devices = *CreateCudaDevices(&driver, 2);
  const auto launch = [&](int device) {
    Launch(&driver, Tensor::Zeros(devices[device], {4}, DType::kF32));
  };
  for (int i = 0; i < 2; ++i) {
    OnAnotherThread([&] {
      EXPECT_TRUE(devices[i]->BindThread().ok());
      launch(i);
    });
  }
  EXPECT_THAT(driver.violations(), IsEmpty());
  OnAnotherThread([&] {
    EXPECT_TRUE(devices[0]->BindThread().ok());
    launch(1);
  });
  OnAnotherThread([&] { launch(0); });
  EXPECT_THAT(driver.violations(),
              ElementsAre(AllOf(HasSubstr("a stream of GPU 1"), HasSubstr("made GPU 0 current")),
                          HasSubstr("a thread without a context")));
}

TEST(FakeContextsTest, KernelsUseTheirOwnGpusMemory) {
  FakeDriver driver;
  driver.SetNumGpus(2);
  const auto devices = *CreateCudaDevices(&driver, 2);  // GPU 0 stays current to this thread
  Tensor sum = Tensor::Zeros(devices[0], {4}, DType::kF32);
  const Tensor there = Tensor::Zeros(devices[1], {4}, DType::kF32);
  const Tensor copy = there.CopyTo(devices[0]);  // not a kernel
  devices[0]->Accumulate(sum.raw_data(), copy.raw_data(), 4);
  EXPECT_TRUE(devices[0]->Synchronize().ok());
  EXPECT_THAT(driver.violations(), IsEmpty());
  devices[0]->Accumulate(sum.raw_data(), there.raw_data(), 4);
  EXPECT_TRUE(devices[0]->Synchronize().ok());
  EXPECT_THAT(driver.violations(), ElementsAre("a term on GPU 0 uses memory of GPU 1"));
}

// Copies between GPUs must say on which GPU each side is.
TEST(FakeContextsTest, CopiesBetweenGpusNeedBothGpus) {
  FakeDriver driver;
  driver.SetNumGpus(2);
  const auto devices = *CreateCudaDevices(&driver, 2);
  const Tensor here = Tensor::Zeros(devices[0], {4}, DType::kF32);
  const Tensor there = Tensor::FromHost<float>(devices[1], {4}, std::vector<float>{1, 2, 3, 4});
  const Stream stream = CudaDeviceOf(*devices[0]).stream();
  const auto copy_between = [&](int to_gpu, int from_gpu) {
    ASSERT_TRUE(devices[1]->Synchronize().ok());
    ASSERT_TRUE(driver
                    .CopyBetween(here.raw_data(), to_gpu, there.raw_data(), from_gpu,
                                 here.size_bytes(), stream)
                    .ok());
    ASSERT_TRUE(devices[0]->Synchronize().ok());
  };
  copy_between(0, 1);
  EXPECT_EQ(HostValues(here), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_THAT(driver.violations(), IsEmpty());
  copy_between(1, 0);
  ASSERT_TRUE(driver.Copy(here.raw_data(), there.raw_data(), here.size_bytes(), stream).ok());
  ASSERT_TRUE(devices[0]->Synchronize().ok());
  EXPECT_THAT(driver.violations(), ElementsAre("memory of GPU 1 is copied as if of GPU 0",
                                               "memory of GPU 0 is copied as if of GPU 1",
                                               "a copy out on GPU 0 uses memory of GPU 1"));
}

// Any thread may make the driver's own calls.
TEST(FakeContextsTest, AnyThreadMayEnqueueSums) {
  FakeDriver driver;
  driver.SetNumGpus(2);
  const auto devices = *CreateCudaDevices(&driver, 2);
  Tensor sum = Tensor::FromHost<float>(devices[1], {2}, std::vector<float>{1, 2});
  const auto add = [&] { devices[1]->Accumulate(sum.raw_data(), sum.raw_data(), 2); };
  add();  // GPU 0 is current
  OnAnotherThread(add);
  EXPECT_EQ(HostValues(sum), (std::vector<float>{4, 8}));
  EXPECT_THAT(driver.violations(), IsEmpty());
}

TEST(FakeContextsTest, WithinMakesContextOrWholeGpuCurrent) {
  FakeDriver driver;
  driver.SetNumGpus(2);
  const auto shares = *driver.Divide(1, 2, 64);
  const auto gpu_and_green = [&](const Context& context) {
    std::pair<int, void*> within;
    driver.Within(context, [&] { within = {driver.current()->gpu, driver.current()->green}; });
    return within;
  };
  ASSERT_TRUE(driver.MakeCurrent(shares[0]).ok());
  EXPECT_EQ(gpu_and_green(shares[0]), std::make_pair(1, shares[0].green));
  EXPECT_EQ(gpu_and_green(shares[1]), std::make_pair(1, static_cast<void*>(nullptr)));
  EXPECT_EQ(gpu_and_green({0, 132, nullptr}), std::make_pair(0, static_cast<void*>(nullptr)));
  EXPECT_EQ(driver.current()->green, shares[0].green);
  EXPECT_THAT(driver.violations(), IsEmpty());
}

// Its own thread and threads with the context of the whole GPU may launch them; a thread of another
// share may not.
TEST(FakeContextsTest, KernelsOfShareNeedItsContext) {
  FakeDriver driver;
  const auto devices = *CreateVirtualCudaDevices(&driver, 2);
  const auto launch = [&] { Launch(&driver, Tensor::Zeros(devices[0], {4}, DType::kF32)); };
  launch();  // the devices were created by this thread
  OnAnotherThread([&] {
    EXPECT_TRUE(devices[0]->BindThread().ok());
    launch();
  });
  EXPECT_THAT(driver.violations(), IsEmpty());
  OnAnotherThread([&] {
    EXPECT_TRUE(devices[1]->BindThread().ok());
    launch();
  });
  EXPECT_THAT(driver.violations(), ElementsAre(HasSubstr("made a green context of GPU 0 current")));
}

TEST(FakeContextsTest, EventsStayOnTheirGpu) {
  FakeDriver driver;
  driver.SetNumGpus(2);
  const Context first{0, 132, nullptr}, second{1, 132, nullptr};
  const Stream stream = *driver.CreateStream(first);
  const Event own = *driver.CreateEvent(first), foreign = *driver.CreateEvent(second);
  ASSERT_TRUE(driver.Record(own, stream).ok());
  EXPECT_THAT(driver.violations(), IsEmpty());
  ASSERT_TRUE(driver.Record(foreign, stream).ok());
  driver.RunAll();
  ASSERT_TRUE(driver.ElapsedNs(own, foreign).ok());
  EXPECT_THAT(driver.violations(), ElementsAre("an event of GPU 1 is recorded on GPU 0",
                                               "the time between events of GPU 0 and GPU 1"));
  driver.DestroyEvent(own);
  driver.DestroyEvent(foreign);
  driver.DestroyStream(stream);
}

}  // namespace
}  // namespace dpipe::cuda
