#include "core/backend/connect_ranks.h"

#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A message from rank 0 to rank 1 arrives.
void ExpectConnected(const std::vector<std::shared_ptr<Device>>& devices) {
  const auto ranks = ConnectRanks(devices, absl::Seconds(30));
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  const std::vector<float> values = {1, 2, 3};
  const Tensor message = Tensor::FromHost<float>(devices[0], {3}, values);
  ASSERT_TRUE((*ranks)[0]->Send(Rank(1), 0, {message}, "message").ok());
  const auto recv = (*ranks)[1]->PostRecv(Rank(0), 0, {{{3}, DType::kF32}}, "message");
  ASSERT_TRUE(recv.ok()) << recv.status();
  const auto tensors = (*recv)->Wait();
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const Tensor there = (*tensors)[0].CopyTo(devices[1]).ToHost();
  EXPECT_EQ(std::vector<float>(there.data<float>(), there.data<float>() + 3), values);
}

TEST(ConnectRanksTest, CpusTalkInProcess) { ExpectConnected({Device::Cpu(), Device::Cpu()}); }

TEST(ConnectRanksTest, RanksOnOneGpuTalkInTheOrderOfTheirStreams) {
  cuda::FakeDriver driver;
  ExpectConnected(*cuda::CreateVirtualCudaDevices(&driver, 2));
  EXPECT_THAT(driver.violations(), IsEmpty());
}

TEST(ConnectRanksTest, SomeSharingAGpuAndOthersNotIsRefused) {
  cuda::FakeDriver driver;
  auto devices = *cuda::CreateVirtualCudaDevices(&driver, 2);
  driver.gpus().push_back(driver.gpus()[0]);
  driver.gpus()[1].index = 1;
  devices.push_back((*cuda::CreateCudaDevices(&driver, 2))[1]);
  EXPECT_THAT(std::string(ConnectRanks(devices, absl::Seconds(1)).status().message()),
              HasSubstr("ranks lie on 2 GPUs, but cuda:0/1 of 2 shares its GPU"));
}

}  // namespace
}  // namespace dpipe
