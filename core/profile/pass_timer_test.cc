#include "core/profile/pass_timer.h"

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

}  // namespace
}  // namespace dpipe
