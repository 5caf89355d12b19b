#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class UsableMemoryTest : public ::testing::Test {
 protected:
  FakeDriver driver_;
};

TEST_F(UsableMemoryTest, LeavesOneEighthOfEachGpu) {
  driver_.gpus()[0].memory_bytes = 80000;
  driver_.SetNumGpus(2);
  driver_.gpus()[1].memory_bytes = 40000;
  EXPECT_THAT(UsableBytes(*CreateCudaDevices(&driver_, 2)), ElementsAre(70000, 35000));
}

TEST_F(UsableMemoryTest, VirtualDevicesShareMemoryOfGpu) {
  driver_.gpus()[0].memory_bytes = 80000;
  const auto devices = CreateVirtualCudaDevices(&driver_, 4);
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_THAT(UsableBytes(*devices), Each(17500));
  EXPECT_THAT(UsableBytes({(*devices)[2]}), ElementsAre(70000)) << "the other devices are idle";
}

TEST_F(UsableMemoryTest, RecognisesPartsOfOneGpu) {
  driver_.SetNumGpus(2);
  const auto parts = *CreateVirtualCudaDevices(&driver_, 2);
  EXPECT_TRUE(ShareOneGpu(parts));
  EXPECT_FALSE(ShareOneGpu({parts[0]}));
  EXPECT_FALSE(ShareOneGpu(*CreateCudaDevices(&driver_, 2)));
  EXPECT_FALSE(ShareOneGpu({Device::Cpu(), Device::Cpu()}));
}

TEST_F(UsableMemoryTest, UnknownMemoryIsZero) {
  driver_.gpus()[0].memory_bytes = 0;
  EXPECT_THAT(UsableBytes({Device::Cpu(), (*CreateCudaDevices(&driver_, 1))[0]}),
              ElementsAre(0, 0));
}

}  // namespace
}  // namespace dpipe::cuda
