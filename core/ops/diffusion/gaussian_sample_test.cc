#include <cmath>

#include "core/ops/diffusion/diffusion.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

TEST(GaussianSampleTest, ByHand) {
  const auto cpu = Device::Cpu();
  // Two pixels of two channels: means 1, 2 and 3, 4; variances 1, e^2 and beyond both clamps.
  const Tensor moments = Tensor::FromHost<float>(cpu, {1, 2, 4}, {1, 2, 0, 2, 3, 4, -50, 30});
  const Tensor noise = Tensor::FromHost<float>(cpu, {1, 2, 2}, {0.5f, -1, 2, 1});
  const auto z = Values(*GaussianSampleForward(0.5f, moments, noise));
  EXPECT_FLOAT_EQ(z[0], 0.75);
  EXPECT_FLOAT_EQ(z[1], 0.5 * (2 - std::exp(1.0)));
  EXPECT_FLOAT_EQ(z[2], 0.5 * (3 + 2 * std::exp(-15.0)));
  EXPECT_FLOAT_EQ(z[3], 0.5 * (4 + std::exp(10.0)));
  const Tensor dz = Tensor::FromHost<float>(cpu, {1, 2, 2}, {1, 1, 1, 1});
  const auto d = Values(*GaussianSampleInputGrad(0.5f, moments, noise, dz));
  EXPECT_FLOAT_EQ(d[4], 0.5);
  EXPECT_EQ(d[6], 0) << "clamped";
  EXPECT_EQ(d[7], 0) << "clamped";
}

TEST(GaussianSampleTest, GradientAgreesWithFiniteDifferences) {
  const auto cpu = Device::Cpu();
  const Tensor moments = RandomTensor(cpu, {2, 3, 3, 8}, DType::kF32, 1);
  const Tensor noise = RandomTensor(cpu, {2, 3, 3, 4}, DType::kF32, 2);
  const Tensor dz = RandomTensor(cpu, {2, 3, 3, 4}, DType::kF32, 3);
  ExpectGradient(
      [&](const Tensor& x) { return Dot(dz, *GaussianSampleForward(0.18215f, x, noise)); }, moments,
      *GaussianSampleInputGrad(0.18215f, moments, noise, dz));
}

TEST(GaussianSampleTest, Bf16MomentsOnly) {
  const auto cpu = Device::Cpu();
  const Tensor moments = RandomTensor(cpu, {2, 5, 8}, DType::kBf16, 1);
  const Tensor noise = RandomTensor(cpu, {2, 5, 4}, DType::kF32, 2);
  ExpectSameBits(*GaussianSampleForward(0.5f, moments, noise),
                 *GaussianSampleForward(0.5f, moments.To(DType::kF32), noise));
}

}  // namespace
}  // namespace dpipe::ops
