#include "core/ops/elementwise/elementwise.h"
#include "core/ops/norm/layer_norm.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

// fp32: a few roundings of normalized values (up to 5), and sums of a row in 32 parts. bf16:
// adjacent numbers, up to 2^-7 apart.
Tolerance For(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{5e-6, 5e-6} : Tolerance{1.0 / 128, 5e-6};
}

// Rows of tokens, rows of heads, and more rows per sample than a run of the gradient's sums has.
const Shape kShapes[] = {{1, 3}, {3, 77, 40}, {2, 5, 321}, {2, 30, 4, 64}, {2, 261, 7}};

class RmsNormTest : public ::testing::TestWithParam<DType> {
 protected:
  RmsNormTest() { cpu_->allocator().set_poison(true); }

  std::shared_ptr<Device> cpu_ = Device::Cpu();
  std::shared_ptr<Device> ref_ = Device::CpuReference();
};

TEST_P(RmsNormTest, CpuAgreesWithReference) {
  for (const Shape& shape : kShapes) {
    const Tensor x = RandomTensor(cpu_, shape, GetParam(), 1, 2, 1);
    const Tensor dy = RandomTensor(cpu_, shape, GetParam(), 2);
    const Tensor scale = RandomTensor(cpu_, {shape[-1]}, DType::kF32, 3);
    const RmsNormResult y = *RmsNormForward({}, x, scale);
    const RmsNormResult y_ref = *RmsNormForward({}, OnDevice(ref_, x), OnDevice(ref_, scale));
    ExpectClose(y.y, y_ref.y, For(GetParam()));
    ExpectClose(y.rstd, y_ref.rstd, For(DType::kF32));
    // Uses the same statistics, so that only this pass's error counts.
    const RmsNormGrads g = *RmsNormInputGrad(x, dy, y.rstd, scale);
    const RmsNormGrads g_ref = *RmsNormInputGrad(OnDevice(ref_, x), OnDevice(ref_, dy),
                                                 OnDevice(ref_, y.rstd), OnDevice(ref_, scale));
    ExpectClose(g.dx, g_ref.dx, For(GetParam()));
    // Runs of up to 128 terms of size 1 to 5, in order: at worst 128 * 2^-24 * 5.
    ExpectClose(g.sums, g_ref.sums, {2e-5, 4e-5});
  }
}

// In fp32 the bits equal those of a separate sum; bf16 is rounded once.
TEST_P(RmsNormTest, AnAddendIsAddedToTheGradient) {
  for (const Shape& shape : kShapes) {
    const Tensor x = RandomTensor(cpu_, shape, GetParam(), 1, 2, 1);
    const Tensor dy = RandomTensor(cpu_, shape, GetParam(), 2);
    const Tensor scale = RandomTensor(cpu_, {shape[-1]}, DType::kF32, 3);
    const Tensor later = RandomTensor(cpu_, shape, GetParam(), 4);
    const Tensor rstd = RmsNormForward({}, x, scale)->rstd;
    const RmsNormGrads g = *RmsNormInputGrad(x, dy, rstd, scale, later);
    const RmsNormGrads plain = *RmsNormInputGrad(x, dy, rstd, scale);
    ExpectSameBits(g.sums, plain.sums);
    if (GetParam() == DType::kF32) ExpectSameBits(g.dx, *Add(plain.dx, later));
    const RmsNormGrads g_ref =
        *RmsNormInputGrad(OnDevice(ref_, x), OnDevice(ref_, dy), OnDevice(ref_, rstd),
                          OnDevice(ref_, scale), OnDevice(ref_, later));
    ExpectClose(g.dx, g_ref.dx, For(GetParam()));
  }
}

TEST_P(RmsNormTest, SampleDoesNotDependOnItsNeighbours) {
  const Tensor x = RandomTensor(cpu_, {3, 170, 37}, GetParam(), 1);
  const Tensor dy = RandomTensor(cpu_, {3, 170, 37}, GetParam(), 2);
  const Tensor scale = RandomTensor(cpu_, {37}, DType::kF32, 3);
  const RmsNormResult all = *RmsNormForward({}, x, scale);
  const RmsNormResult one = *RmsNormForward({}, x.Slice(1, 2), scale);
  ExpectSameBits(one.y, all.y.Slice(1, 2));
  ExpectSameBits(one.rstd, all.rstd.Slice(170, 340));
  const RmsNormGrads grads = *RmsNormInputGrad(x, dy, all.rstd, scale);
  const RmsNormGrads one_grads = *RmsNormInputGrad(x.Slice(1, 2), dy.Slice(1, 2), one.rstd, scale);
  ExpectSameBits(one_grads.dx, grads.dx.Slice(1, 2));
  ExpectSameBits(one_grads.sums, grads.sums.Slice(1, 2));
}

INSTANTIATE_TEST_SUITE_P(DTypes, RmsNormTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(RmsNormReferenceTest, GradientsAgreeWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {2, 3, 7}, DType::kF32, 1);
  const Tensor dy = RandomTensor(ref, {2, 3, 7}, DType::kF32, 2);
  const Tensor scale = RandomTensor(ref, {7}, DType::kF32, 3);
  const RmsNormResult y = *RmsNormForward({}, x, scale);
  const RmsNormGrads grads = *RmsNormInputGrad(x, dy, y.rstd, scale);
  Tensor dscale = Tensor::Zeros(ref, {7}, DType::kF32);
  ASSERT_TRUE(RmsNormWeightGrad(grads.sums, &dscale).ok());
  const auto loss = [&](const Tensor& a, const Tensor& b) {
    return Dot(dy, RmsNormForward({}, a, b)->y);
  };
  ExpectGradient([&](const Tensor& v) { return loss(v, scale); }, x, grads.dx);
  ExpectGradient([&](const Tensor& v) { return loss(x, v); }, scale, dscale);
}

TEST(RmsNormSpecialTest, WeightGradientAdds) {
  const auto cpu = Device::Cpu();
  const Tensor sums = Tensor::FromHost<float>(cpu, {2, 2}, {1, 2, 30, 40});
  Tensor dscale = Tensor::FromHost<float>(cpu, {2}, {100, 200});
  ASSERT_TRUE(RmsNormWeightGrad(sums, &dscale).ok());
  EXPECT_EQ(Values(dscale), (std::vector<double>{131, 242}));
}

TEST(RmsNormSpecialTest, ByHand) {
  const auto cpu = Device::Cpu();
  const Tensor x = Tensor::FromHost<float>(cpu, {1, 2}, {1, 7});  // mean square 25
  const Tensor scale = Tensor::FromHost<float>(cpu, {2}, {32, 2});
  RmsNormParams params;
  params.eps = 39;  // rstd = 1/8
  const RmsNormResult y = *RmsNormForward(params, x, scale);
  EXPECT_EQ(Values(y.y), (std::vector<double>{4, 1.75}));
  EXPECT_EQ(Values(y.rstd), (std::vector<double>{0.125}));
}

}  // namespace
}  // namespace dpipe::ops
