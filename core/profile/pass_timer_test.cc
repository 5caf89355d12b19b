#include "core/profile/pass_timer.h"

#include <vector>

#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

using ::testing::ElementsAre;

// The fake GPU takes 1 us per piece of work, including events.
TEST(PassTimerTest, TimesOnlyWorkBetweenBeginAndEnd) {
  cuda::FakeDriver driver;
  const auto device = (*cuda::CreateCudaDevices(&driver, 1))[0];
  const Tensor t = Tensor::Zeros(device, {4}, DType::kF32);
  std::vector<Nanos> one, two;
  PassTimer timer(device.get());
  for (bool keep : {false, true}) {
    device->FillZero(t.raw_data(), 16);
    timer.Begin();
    device->FillZero(t.raw_data(), 16);
    timer.End(&one);
    device->FillZero(t.raw_data(), 16);
    device->FillZero(t.raw_data(), 16);
    timer.End(&two);
    ASSERT_TRUE(timer.Finish(keep).ok());
  }
  EXPECT_THAT(one, ElementsAre(2000));
  EXPECT_THAT(two, ElementsAre(3000));
}

TEST(PassTimerTest, DeviceErrorsEndPass) {
  cuda::FakeDriver driver;
  const auto device = (*cuda::CreateCudaDevices(&driver, 1))[0];
  const Tensor t = Tensor::Zeros(device, {4}, DType::kF32);
  std::vector<Nanos> samples;
  PassTimer timer(device.get());
  timer.Begin();
  driver.FailNext("Fill");
  device->FillZero(t.raw_data(), 16);
  timer.End(&samples);
  EXPECT_FALSE(timer.Finish(/*keep=*/true).ok());
  EXPECT_TRUE(samples.empty());
}

using ::testing::ElementsAre;

TEST(HeadStartTest, EqualsHostTimeOfLastPass) {
  HeadStart head_start(HeadStart::Of::kFrozen);
  EXPECT_EQ(head_start.next_ns(), 0);
  head_start.Took(/*host_ns=*/3'000'000'000, /*device_ns=*/3'000'000'000);
  EXPECT_EQ(head_start.next_ns(), 100 * kNanosPerMilli) << "the first pass made plans";
  head_start.Took(36'000'000, 8'000'000);
  EXPECT_EQ(head_start.next_ns(), 36'000'000) << "in training, other work is enqueued before it";
}

TEST(HeadStartTest, HostBoundBackboneGetsNone) {
  HeadStart head_start(HeadStart::Of::kBackbone);
  head_start.Took(3'000'000, 2'000'000);
  EXPECT_EQ(head_start.next_ns(), 3'000'000) << "that pass had none, so the bound is unknown";
  head_start.Took(3'000'000, 2'000'000);
  EXPECT_EQ(head_start.next_ns(), 0);
  head_start.Took(3'000'000, 3'000'001);
  EXPECT_EQ(head_start.next_ns(), 0) << "it stays host-bound";
}

TEST(HeadStartTest, DeviceBoundBackboneGetsOne) {
  HeadStart head_start(HeadStart::Of::kBackbone);
  head_start.Took(3'000'000, 9'000'000);
  head_start.Took(3'500'000, 9'000'000);
  EXPECT_EQ(head_start.next_ns(), 3'500'000);
}

// The fake GPU takes one microsecond per piece of work.
TEST(HeadStartTest, WaitIsNotPartOfTimes) {
  cuda::FakeDriver driver;
  const auto device = (*cuda::CreateCudaDevices(&driver, 1))[0];
  const Tensor t = Tensor::Zeros(device, {4}, DType::kF32);
  const auto before = device->RecordEvent();
  std::vector<Nanos> samples;
  PassTimer timer(device.get());
  EnqueueWait(device.get(), 5 * kNanosPerMilli);
  timer.Begin();
  device->FillZero(t.raw_data(), 16);
  timer.End(&samples);
  const auto after = device->RecordEvent();
  ASSERT_TRUE(timer.Finish(/*keep=*/true).ok());
  EXPECT_THAT(samples, ElementsAre(2000));
  EXPECT_GT(after->time_ns() - before->time_ns(), 5 * kNanosPerMilli);
  EXPECT_EQ(driver.num_calls("Delay"), 1);
  EnqueueWait(device.get(), 0);
  EXPECT_EQ(driver.num_calls("Delay"), 1);
  EXPECT_THAT(driver.violations(), ElementsAre());
}

TEST(HeadStartTest, CpusDoNotWait) {
  const auto device = Device::Cpu();
  const Nanos begin_ns = MonotonicNow();
  EnqueueWait(device.get(), 3600 * kNanosPerSecond);
  EXPECT_LT(MonotonicNow() - begin_ns, 3600 * kNanosPerSecond);
}

}  // namespace

}  // namespace dpipe
