#include "core/ops/norm/layer_norm.h"

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

// fp32: a few roundings of normalized values (up to 5), and sums of a row in 32 parts. bf16:
// adjacent numbers, up to 2^-7 apart.
Tolerance For(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{5e-6, 5e-6} : Tolerance{1.0 / 128, 5e-6};
}

class LayerNormTest : public ::testing::TestWithParam<DType> {
 protected:
  LayerNormTest() { cpu_->allocator().set_poison(true); }

  std::shared_ptr<Device> cpu_ = Device::Cpu();
  std::shared_ptr<Device> ref_ = Device::CpuReference();
};

TEST_P(LayerNormTest, CpuAgreesWithReference) {
  for (const Shape& shape : {Shape{1, 3}, Shape{3, 77, 40}, Shape{2, 5, 321}, Shape{2, 3, 4, 64}}) {
    const Tensor x = RandomTensor(cpu_, shape, GetParam(), 1, 2, 1);
    const Tensor dy = RandomTensor(cpu_, shape, GetParam(), 2);
    const Tensor scale = RandomTensor(cpu_, {shape[-1]}, DType::kF32, 3);
    const Tensor bias = RandomTensor(cpu_, {shape[-1]}, DType::kF32, 4);
    const LayerNormResult y = *LayerNormForward({}, x, scale, bias);
    const LayerNormResult y_ref =
        *LayerNormForward({}, OnDevice(ref_, x), OnDevice(ref_, scale), OnDevice(ref_, bias));
    ExpectClose(y.y, y_ref.y, For(GetParam()));
    ExpectClose(y.stats, y_ref.stats, For(DType::kF32));
    // Uses the same statistics, so that only this pass's error counts.
    const LayerNormGrads g = *LayerNormInputGrad(x, dy, y.stats, scale);
    const LayerNormGrads g_ref = *LayerNormInputGrad(
        OnDevice(ref_, x), OnDevice(ref_, dy), OnDevice(ref_, y.stats), OnDevice(ref_, scale));
    ExpectClose(g.dx, g_ref.dx, For(GetParam()));
    // Up to 77 terms of size 1 to 5, in order: at worst 77 * 2^-24 * 5.
    ExpectClose(g.sums, g_ref.sums, {2e-5, 2e-5});
  }
}

// In fp32 the bits equal those of a separate sum; bf16 is rounded once.
TEST_P(LayerNormTest, AnAddendIsAddedToTheGradient) {
  for (const Shape& shape : {Shape{1, 3}, Shape{3, 77, 40}, Shape{2, 5, 321}}) {
    const Tensor x = RandomTensor(cpu_, shape, GetParam(), 1, 2, 1);
    const Tensor dy = RandomTensor(cpu_, shape, GetParam(), 2);
    const Tensor scale = RandomTensor(cpu_, {shape[-1]}, DType::kF32, 3);
    const Tensor later = RandomTensor(cpu_, shape, GetParam(), 4);
    const Tensor stats = LayerNormForward({}, x, scale, scale)->stats;
    const LayerNormGrads g = *LayerNormInputGrad(x, dy, stats, scale, later);
    const LayerNormGrads plain = *LayerNormInputGrad(x, dy, stats, scale);
    ExpectSameBits(g.sums, plain.sums);
    if (GetParam() == DType::kF32) ExpectSameBits(g.dx, *Add(plain.dx, later));
    const LayerNormGrads g_ref =
        *LayerNormInputGrad(OnDevice(ref_, x), OnDevice(ref_, dy), OnDevice(ref_, stats),
                            OnDevice(ref_, scale), OnDevice(ref_, later));
    ExpectClose(g.dx, g_ref.dx, For(GetParam()));
  }
}

TEST_P(LayerNormTest, SampleDoesNotDependOnItsNeighbours) {
  const Tensor x = RandomTensor(cpu_, {3, 70, 37}, GetParam(), 1);
  const Tensor dy = RandomTensor(cpu_, {3, 70, 37}, GetParam(), 2);
  const Tensor scale = RandomTensor(cpu_, {37}, DType::kF32, 3);
  const LayerNormResult all = *LayerNormForward({}, x, scale, scale);
  const LayerNormResult one = *LayerNormForward({}, x.Slice(1, 2), scale, scale);
  ExpectSameBits(one.y, all.y.Slice(1, 2));
  ExpectSameBits(one.stats, all.stats.Slice(70, 140));
  const LayerNormGrads grads = *LayerNormInputGrad(x, dy, all.stats, scale);
  const LayerNormGrads one_grads =
      *LayerNormInputGrad(x.Slice(1, 2), dy.Slice(1, 2), one.stats, scale);
  ExpectSameBits(one_grads.dx, grads.dx.Slice(1, 2));
  ExpectSameBits(one_grads.sums, grads.sums.Slice(1, 2));
}

INSTANTIATE_TEST_SUITE_P(DTypes, LayerNormTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(LayerNormReferenceTest, GradientsAgreeWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {2, 3, 7}, DType::kF32, 1);
  const Tensor dy = RandomTensor(ref, {2, 3, 7}, DType::kF32, 2);
  const Tensor scale = RandomTensor(ref, {7}, DType::kF32, 3);
  const Tensor bias = RandomTensor(ref, {7}, DType::kF32, 4);
  const LayerNormResult y = *LayerNormForward({}, x, scale, bias);
  const LayerNormGrads grads = *LayerNormInputGrad(x, dy, y.stats, scale);
  Tensor dscale = Tensor::Zeros(ref, {7}, DType::kF32), dbias = dscale.Clone();
  ASSERT_TRUE(LayerNormWeightGrad(grads.sums, &dscale, &dbias).ok());
  const auto loss = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
    return Dot(dy, LayerNormForward({}, a, b, c)->y);
  };
  ExpectGradient([&](const Tensor& v) { return loss(v, scale, bias); }, x, grads.dx);
  ExpectGradient([&](const Tensor& v) { return loss(x, v, bias); }, scale, dscale);
  ExpectGradient([&](const Tensor& v) { return loss(x, scale, v); }, bias, dbias);
}

TEST(LayerNormSpecialTest, WeightGradientAdds) {
  const auto cpu = Device::Cpu();
  const Tensor sums = Tensor::FromHost<float>(cpu, {2, 2, 2}, {1, 2, 3, 4, 10, 20, 30, 40});
  Tensor dscale = Tensor::FromHost<float>(cpu, {2}, {100, 200});
  Tensor dbias = Tensor::FromHost<float>(cpu, {2}, {1000, 2000});
  ASSERT_TRUE(LayerNormWeightGrad(sums, &dscale, &dbias).ok());
  EXPECT_EQ(Values(dscale), (std::vector<double>{133, 244}));
  EXPECT_EQ(Values(dbias), (std::vector<double>{1011, 2022}));
}

TEST(LayerNormSpecialTest, ByHand) {
  const auto cpu = Device::Cpu();
  const Tensor x = Tensor::FromHost<float>(cpu, {1, 2}, {1, 3});  // mean 2, variance 1
  const Tensor scale = Tensor::FromHost<float>(cpu, {2}, {2, 2});
  const Tensor bias = Tensor::FromHost<float>(cpu, {2}, {10, 10});
  LayerNormParams params;
  params.eps = 3;  // rstd = 1/2
  const LayerNormResult y = *LayerNormForward(params, x, scale, bias);
  EXPECT_EQ(Values(y.y), (std::vector<double>{9, 11}));
  EXPECT_EQ(Values(y.stats), (std::vector<double>{2, 0.5}));
}

}  // namespace
}  // namespace dpipe::ops
