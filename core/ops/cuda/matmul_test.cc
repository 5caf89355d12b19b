#include "core/ops/cuda/matmul.h"

#include "core/ops/cuda/emulated_gpu/emulated_device.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/product/linear.h"
#include "core/ops/testing/op_testing.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"

namespace dpipe::ops::cuda {
namespace {

constexpr int kH200 = 132;

TEST(ShouldSumRowsTest, IfTilesFillTheGpu) {
  // The U-Net's levels at 64 samples: projections of 9, 25 and 100 tiles, and feed-forwards.
  EXPECT_FALSE(ShouldSumRows(320, 320, 262144, kH200));
  EXPECT_FALSE(ShouldSumRows(640, 640, 65536, kH200));
  EXPECT_FALSE(ShouldSumRows(1280, 1280, 16384, kH200));
  EXPECT_FALSE(ShouldSumRows(2560, 320, 262144, kH200));  // 20 x 3
  EXPECT_TRUE(ShouldSumRows(5120, 640, 65536, kH200));    // 40 x 5
  EXPECT_TRUE(ShouldSumRows(1280, 5120, 16384, kH200));   // 10 x 40

  // Partial tiles count: 11 x 12 tiles, then one row of tiles fewer.
  EXPECT_TRUE(ShouldSumRows(10 * 128 + 8, 11 * 128 + 8, 65536, kH200));
  EXPECT_FALSE(ShouldSumRows(10 * 128, 11 * 128 + 8, 65536, kH200));
}

TEST(ShouldSumRowsTest, IfTheSumIsShort) {
  EXPECT_TRUE(ShouldSumRows(8, 8, 8, kH200));
  EXPECT_TRUE(ShouldSumRows(1280, 320, 64, kH200));  // time embedding
  EXPECT_TRUE(ShouldSumRows(320, 320, 1024, kH200));
  EXPECT_FALSE(ShouldSumRows(320, 320, 1032, kH200));
}

TEST(ShouldSumRowsTest, NotIfRowsOrColumnsAreUnaligned) {
  EXPECT_FALSE(ShouldSumRows(1, 8, 8, kH200));
  EXPECT_FALSE(ShouldSumRows(8, 9, 8, kH200));
  EXPECT_FALSE(ShouldSumRows(8, 8, 77, kH200));
}

TEST(ShouldSumRowsTest, FewTilesFillAShareOfAGpu) {
  dpipe::cuda::FakeDriver driver;
  const auto whole = *dpipe::cuda::CreateCudaDevices(&driver, 1);
  EXPECT_EQ(MultiprocessorsOf(*whole[0]), 132);
  const auto shares = *dpipe::cuda::CreateVirtualCudaDevices(&driver, 16);
  EXPECT_EQ(MultiprocessorsOf(*shares[0]), 8);
  EXPECT_FALSE(ShouldSumRows(320, 320, 262144, MultiprocessorsOf(*whole[0])));
  EXPECT_TRUE(ShouldSumRows(320, 320, 262144, MultiprocessorsOf(*shares[0])));
}

// Returns the first bias gradient for `rows` rows of eight equal numbers: first 2^24, then ones.
double BiasGradAfterALargeRow(int64_t rows) {
  const auto device = std::make_shared<EmulatedDevice>();
  const Tensor dy = Tensor::Empty(Device::Cpu(), {rows, 8}, DType::kF32);
  for (int64_t i = 0; i < rows * 8; ++i) dy.data<float>()[i] = i < 8 ? 1 << 24 : 1;
  const Tensor dy_there = OnDevice(device, dy);
  Tensor dw = Tensor::Zeros(device, {8, 8}, DType::kF32);
  Tensor db = Tensor::Zeros(device, {8}, DType::kF32);
  EXPECT_TRUE(LinearWeightGrad(dy_there, dy_there, &dw, &db).ok());
  return Values(OnDevice(Device::Cpu(), db))[0];
}

// Adding ones to 2^24 in fp32 loses them, and this happens within a run of the kernel. Emulated
// products add in double.
TEST(ShouldSumRowsTest, LinearLayersFollowIt) {
  EXPECT_EQ(BiasGradAfterALargeRow(1024), (1 << 24) + 1024);  // 1023 ones, rounded to even
  // Of 1031 ones, the kernel loses 15: the rest of the 16 rows of the first thread in its first
  // run. The other 1016 are added exactly, because the sum is even.
  EXPECT_EQ(BiasGradAfterALargeRow(1032), (1 << 24) + 1016);
}

}  // namespace
}  // namespace dpipe::ops::cuda
