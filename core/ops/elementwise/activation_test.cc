#include <cmath>
#include <limits>

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

constexpr Activation kAll[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh,
                               Activation::kQuickGelu};

// fp32: a few roundings of a value of x's size, and the polynomials' 3 ulp. In the negative tail of
// the GELUs, 1 + erf(x) cancels and leaves 2^-24 |x dy| of absolute error, with |x dy| up to 40
// here. bf16: the fp32 result and the exact one may round to adjacent numbers, up to 2^-7 apart
// relatively.
Tolerance For(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{1e-6, 3e-6} : Tolerance{1.0 / 128, 3e-6};
}

class ActivationTest : public ::testing::TestWithParam<DType> {
 protected:
  std::shared_ptr<Device> cpu_ = Device::Cpu();
  std::shared_ptr<Device> ref_ = Device::CpuReference();
};

TEST_P(ActivationTest, CpuAgreesWithReference) {
  for (Activation activation : kAll) {
    for (const Shape& shape : {Shape{1}, Shape{3, 5, 7}, Shape{2, 17, 1031}}) {
      const Tensor x = RandomTensor(cpu_, shape, GetParam(), 1, 3);
      const Tensor dy = RandomTensor(cpu_, shape, GetParam(), 2);
      const Tensor x_ref = OnDevice(ref_, x), dy_ref = OnDevice(ref_, dy);
      ExpectClose(*ActivationForward(activation, x), *ActivationForward(activation, x_ref),
                  For(GetParam()));
      ExpectClose(*ActivationInputGrad(activation, x, dy),
                  *ActivationInputGrad(activation, x_ref, dy_ref), For(GetParam()));
    }
  }
}

TEST_P(ActivationTest, ResultDoesNotDependOnPositionInTheTensor) {
  // Vector bodies and scalar ends of loops must agree to the bit; otherwise a sample's result would
  // depend on its neighbours.
  for (Activation activation : kAll) {
    const Tensor x = RandomTensor(cpu_, {5, 37}, GetParam(), 3, 2);
    const Tensor dy = RandomTensor(cpu_, {5, 37}, GetParam(), 4);
    const Tensor y = *ActivationForward(activation, x);
    const Tensor dx = *ActivationInputGrad(activation, x, dy);
    for (int b = 0; b < 5; ++b) {
      ExpectSameBits(*ActivationForward(activation, x.Slice(b, b + 1)), y.Slice(b, b + 1));
      ExpectSameBits(*ActivationInputGrad(activation, x.Slice(b, b + 1), dy.Slice(b, b + 1)),
                     dx.Slice(b, b + 1));
    }
  }
}

TEST_P(ActivationTest, NanStaysAndPoisonedMemoryIsOverwritten) {
  cpu_->allocator().set_poison(true);
  for (Activation activation : kAll) {
    Tensor x = RandomTensor(cpu_, {40}, GetParam(), 5);
    for (double v : Values(*ActivationForward(activation, x))) EXPECT_FALSE(std::isnan(v));
    Tensor nan = Tensor::Empty(cpu_, {40}, DType::kF32);
    for (float& v : nan.span<float>()) v = std::numeric_limits<float>::quiet_NaN();
    if (GetParam() == DType::kBf16) nan = nan.To(DType::kBf16);
    for (double v : Values(*ActivationForward(activation, nan))) EXPECT_TRUE(std::isnan(v));
  }
}

TEST_P(ActivationTest, ThreadsDoNotChangeTheResult) {
  const Tensor x = RandomTensor(cpu_, {3, 50001}, GetParam(), 6);
  const auto two = Device::Cpu({0, 1});
  ExpectSameBits(*ActivationForward(Activation::kSilu, x),
                 *ActivationForward(Activation::kSilu, OnDevice(two, x)));
}

INSTANTIATE_TEST_SUITE_P(DTypes, ActivationTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(ActivationReferenceTest, GradientAgreesWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {61}, DType::kF32, 7, 2);
  const Tensor dy = RandomTensor(ref, {61}, DType::kF32, 8);
  for (Activation activation : kAll) {
    ExpectGradient([&](const Tensor& v) { return Dot(dy, *ActivationForward(activation, v)); }, x,
                   *ActivationInputGrad(activation, x, dy));
  }
}

TEST(ActivationReferenceTest, KnownValues) {
  const auto ref = Device::CpuReference();
  const Tensor one = Tensor::FromHost<float>(ref, {1}, {1.0f});
  EXPECT_NEAR(ActivationForward(Activation::kSilu, one)->data<float>()[0], 0.7310586, 1e-6);
  EXPECT_NEAR(ActivationForward(Activation::kGelu, one)->data<float>()[0], 0.8413447, 1e-6);
  EXPECT_NEAR(ActivationForward(Activation::kGeluTanh, one)->data<float>()[0], 0.8411920, 1e-6);
  EXPECT_NEAR(ActivationForward(Activation::kQuickGelu, one)->data<float>()[0], 0.8457958, 1e-6);
}

}  // namespace
}  // namespace dpipe::ops
