#include <cmath>
#include <vector>

#include "core/ops/diffusion/diffusion.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBf16};

TEST(CombineTest, CpuAgreesWithReferenceInEveryMixtureOfTypes) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  const std::vector<float> a = {0.5f, -1.25f, 0.0f}, b = {2.0f, 0.1f, 1.0f};
  for (DType x_type : kTypes) {
    for (DType y_type : kTypes) {
      for (DType z_type : kTypes) {
        const Tensor x = RandomTensor(cpu, {3, 7, 11}, x_type, 1);
        const Tensor y = RandomTensor(cpu, {3, 7, 11}, y_type, 2);
        const Tensor z = *CombineSamples(a, x, b, y, z_type);
        // Three fp32 roundings of values up to 8; then one to bf16.
        ExpectClose(z, *CombineSamples(a, OnDevice(ref, x), b, OnDevice(ref, y), z_type),
                    {z_type == DType::kF32 ? 2.5e-7 : 1.0 / 128, 1e-6});
        ExpectSameBits(*CombineSamples({a[1]}, x.Slice(1, 2), {b[1]}, y.Slice(1, 2), z_type),
                       z.Slice(1, 2));
      }
    }
  }
}

TEST(CombineTest, WeightsArePerSample) {
  const auto cpu = Device::Cpu();
  const Tensor x = Tensor::FromHost<float>(cpu, {2, 2}, {1, 2, 3, 4});
  const Tensor y = Tensor::FromHost<float>(cpu, {2, 2}, {10, 20, 30, 40});
  EXPECT_EQ(Values(*CombineSamples({1, 2}, x, {0.5f, 0}, y, DType::kF32)),
            (std::vector<double>{6, 12, 6, 8}));
  const Tensor a = Tensor::FromHost<float>(cpu, {2}, {1, 2});
  const Tensor b = Tensor::FromHost<float>(cpu, {2}, {0.5f, 0});
  EXPECT_EQ(Values(*CombineSamples(a, x, b, y, DType::kF32)), (std::vector<double>{6, 12, 6, 8}));
}

TEST(CombineTest, InverseQuadraticByHand) {
  const Tensor x = Tensor::FromHost<float>(Device::Cpu(), {3}, {0, 0.5f, 2});
  EXPECT_EQ(Values(*InverseQuadratic(10, {1, -2, 2}, x)), (std::vector<double>{10, 20, 2}));
  EXPECT_EQ(Values(*InverseQuadratic(1, {0, 0, 1}, x))[1], 4);
}

TEST(CombineTest, LooksUpEntriesOfATable) {
  const Tensor index = Tensor::FromHost<int32_t>(Device::Cpu(), {5}, {2, 0, 2, -1, 3});
  const std::vector<double> y = Values(*LookUp({10, 20, 30}, index));
  EXPECT_EQ((std::vector<double>{y[0], y[1], y[2]}), (std::vector<double>{30, 10, 30}));
  EXPECT_TRUE(std::isnan(y[3]) && std::isnan(y[4]));
}

}  // namespace
}  // namespace dpipe::ops
