#include "core/ops/norm/group_norm.h"

#include <cmath>
#include <tuple>

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

// fp32: a few roundings of normalized values (up to 5), and sums over up to 1500 elements in
// partial sums of 128. bf16: adjacent numbers, up to 2^-7 apart. x and dy are the same for both.
Tolerance For(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{5e-6, 5e-6} : Tolerance{1.0 / 128, 5e-6};
}

struct Case {
  Shape shape;
  int groups;
};

const Case kCases[] = {{{1, 1, 2}, 1},       {{2, 5, 7, 12}, 4}, {{3, 1, 1, 40}, 8},
                       {{2, 9, 13, 64}, 32}, {{1, 129, 33}, 3},  {{2, 300, 5}, 5}};

struct Inputs {
  Inputs(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype)
      : x(RandomTensor(device, shape, dtype, 1, 2, 0.5f)),
        dy(RandomTensor(device, shape, dtype, 2)),
        scale(RandomTensor(device, {shape[-1]}, DType::kF32, 3)),
        bias(RandomTensor(device, {shape[-1]}, DType::kF32, 4)) {}
  Inputs On(const std::shared_ptr<Device>& device) const {
    Inputs copy = *this;
    for (Tensor* t : {&copy.x, &copy.dy, &copy.scale, &copy.bias}) *t = OnDevice(device, *t);
    return copy;
  }
  Tensor x, dy, scale, bias;
};

class GroupNormTest : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  GroupNormTest() { cpu_->allocator().set_poison(true); }
  DType dtype() const { return std::get<0>(GetParam()); }
  GroupNormParams Params(int groups) const {
    GroupNormParams params;
    params.groups = groups;
    params.silu = std::get<1>(GetParam());
    return params;
  }

  std::shared_ptr<Device> cpu_ = Device::Cpu();
  std::shared_ptr<Device> ref_ = Device::CpuReference();
};

TEST_P(GroupNormTest, CpuAgreesWithReference) {
  for (const Case& c : kCases) {
    const GroupNormParams params = Params(c.groups);
    const Inputs in(cpu_, c.shape, dtype()), in_ref = in.On(ref_);
    const GroupNormResult y = *GroupNormForward(params, in.x, in.scale, in.bias);
    const GroupNormResult y_ref = *GroupNormForward(params, in_ref.x, in_ref.scale, in_ref.bias);
    ExpectClose(y.y, y_ref.y, For(dtype()));
    ExpectClose(y.stats, y_ref.stats, For(DType::kF32));
    // Both use the same statistics, so that only this pass's error counts.
    const GroupNormGrads g = *GroupNormInputGrad(params, in.x, in.dy, y.stats, in.scale, in.bias);
    const GroupNormGrads g_ref = *GroupNormInputGrad(
        params, in_ref.x, in_ref.dy, OnDevice(ref_, y.stats), in_ref.scale, in_ref.bias);
    ExpectClose(g.dx, g_ref.dx, For(dtype()));
    // Sums of up to 300 terms of size 1 to 5.
    ExpectClose(g.sums, g_ref.sums, {2e-5, 2e-5});
  }
}

// In fp32 the bits equal those of a separate sum; bf16 is rounded once.
TEST_P(GroupNormTest, AnAddendIsAddedToTheGradient) {
  for (const Case& c : kCases) {
    const GroupNormParams params = Params(c.groups);
    const Inputs in(cpu_, c.shape, dtype()), in_ref = in.On(ref_);
    const Tensor later = RandomTensor(cpu_, c.shape, dtype(), 5);
    const Tensor stats = GroupNormForward(params, in.x, in.scale, in.bias)->stats;
    const GroupNormGrads g =
        *GroupNormInputGrad(params, in.x, in.dy, stats, in.scale, in.bias, later);
    const GroupNormGrads plain = *GroupNormInputGrad(params, in.x, in.dy, stats, in.scale, in.bias);
    ExpectSameBits(g.sums, plain.sums);
    if (dtype() == DType::kF32) ExpectSameBits(g.dx, *Add(plain.dx, later));
    const GroupNormGrads g_ref =
        *GroupNormInputGrad(params, in_ref.x, in_ref.dy, OnDevice(ref_, stats), in_ref.scale,
                            in_ref.bias, OnDevice(ref_, later));
    ExpectClose(g.dx, g_ref.dx, For(dtype()));
  }
}

TEST_P(GroupNormTest, SampleDoesNotDependOnItsNeighbours) {
  const GroupNormParams params = Params(4);
  const Inputs in(cpu_, {3, 7, 5, 20}, dtype());
  const GroupNormResult all = *GroupNormForward(params, in.x, in.scale, in.bias);
  const GroupNormGrads grads =
      *GroupNormInputGrad(params, in.x, in.dy, all.stats, in.scale, in.bias);
  const GroupNormResult one = *GroupNormForward(params, in.x.Slice(1, 2), in.scale, in.bias);
  const GroupNormGrads one_grads = *GroupNormInputGrad(params, in.x.Slice(1, 2), in.dy.Slice(1, 2),
                                                       one.stats, in.scale, in.bias);
  ExpectSameBits(one.y, all.y.Slice(1, 2));
  ExpectSameBits(one.stats, all.stats.Slice(1, 2));
  ExpectSameBits(one_grads.dx, grads.dx.Slice(1, 2));
  ExpectSameBits(one_grads.sums, grads.sums.Slice(1, 2));
}

TEST_P(GroupNormTest, ThreadsDoNotChangeTheResult) {
  const GroupNormParams params = Params(4);
  const Inputs in(cpu_, {3, 7, 5, 20}, dtype());
  const Inputs in_two = in.On(Device::Cpu({0, 1}));
  const GroupNormResult one = *GroupNormForward(params, in.x, in.scale, in.bias);
  const GroupNormResult two = *GroupNormForward(params, in_two.x, in_two.scale, in_two.bias);
  ExpectSameBits(one.y, two.y);
  ExpectSameBits(
      GroupNormInputGrad(params, in.x, in.dy, one.stats, in.scale, in.bias)->dx,
      GroupNormInputGrad(params, in_two.x, in_two.dy, two.stats, in_two.scale, in_two.bias)->dx);
}

INSTANTIATE_TEST_SUITE_P(All, GroupNormTest,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBf16),
                                            ::testing::Bool()));

class GroupNormReferenceTest : public ::testing::TestWithParam<bool> {};

TEST_P(GroupNormReferenceTest, GradientsAgreeWithFiniteDifferences) {
  GroupNormParams params;
  params.groups = 3;
  params.silu = GetParam();
  const Inputs in(Device::CpuReference(), {2, 3, 2, 6}, DType::kF32);
  const GroupNormResult y = *GroupNormForward(params, in.x, in.scale, in.bias);
  const GroupNormGrads grads = *GroupNormInputGrad(params, in.x, in.dy, y.stats, in.scale, in.bias);
  Tensor dscale = Tensor::Zeros(in.x.device(), {6}, DType::kF32), dbias = dscale.Clone();
  ASSERT_TRUE(GroupNormWeightGrad(grads.sums, &dscale, &dbias).ok());
  const auto loss = [&](const Tensor& x, const Tensor& scale, const Tensor& bias) {
    return Dot(in.dy, GroupNormForward(params, x, scale, bias)->y);
  };
  ExpectGradient([&](const Tensor& v) { return loss(v, in.scale, in.bias); }, in.x, grads.dx);
  ExpectGradient([&](const Tensor& v) { return loss(in.x, v, in.bias); }, in.scale, dscale);
  ExpectGradient([&](const Tensor& v) { return loss(in.x, in.scale, v); }, in.bias, dbias);
}

INSTANTIATE_TEST_SUITE_P(Silu, GroupNormReferenceTest, ::testing::Bool());

TEST(GroupNormSpecialTest, WeightGradientAddsInSampleOrder) {
  const auto cpu = Device::Cpu();
  const Tensor sums = Tensor::FromHost<float>(cpu, {2, 2, 2}, {1, 2, 3, 4, 10, 20, 30, 40});
  Tensor dscale = Tensor::FromHost<float>(cpu, {2}, {100, 200});
  Tensor dbias = Tensor::FromHost<float>(cpu, {2}, {1000, 2000});
  ASSERT_TRUE(GroupNormWeightGrad(sums, &dscale, &dbias).ok());
  EXPECT_EQ(Values(dscale), (std::vector<double>{122, 244}));
  EXPECT_EQ(Values(dbias), (std::vector<double>{1011, 2033}));
}

// The mean is 1e4 times the deviation: sums of squares about 0 would lose all digits of the
// variance.
TEST(GroupNormSpecialTest, LargeMeanKeepsTheVariance) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  const Tensor x = RandomTensor(cpu, {1, 40, 40, 8}, DType::kF32, 1, 1, 1e4f);
  const Tensor one = Tensor::FromHost<float>(cpu, {8}, std::vector<float>(8, 1.0f));
  const Tensor zero = Tensor::Zeros(cpu, {8}, DType::kF32);
  GroupNormParams params;
  params.groups = 2;
  const GroupNormResult y = *GroupNormForward(params, x, one, zero);
  const GroupNormResult y_ref =
      *GroupNormForward(params, OnDevice(ref, x), OnDevice(ref, one), OnDevice(ref, zero));
  ExpectClose(y.stats, y_ref.stats, {1e-5, 0});
  // x a - mean a rounds values of 1e4: 2^-11 absolute each.
  ExpectClose(y.y, y_ref.y, {1e-5, 2e-3});
}

TEST(GroupNormSpecialTest, ConstantInputGivesTheBias) {
  const auto cpu = Device::Cpu();
  const Tensor x = Tensor::FromHost<float>(cpu, {1, 50, 2}, std::vector<float>(100, 0.1f));
  const Tensor scale = Tensor::FromHost<float>(cpu, {2}, {1, 1});
  const Tensor bias = Tensor::FromHost<float>(cpu, {2}, {3, -4});
  GroupNormParams params;
  params.groups = 1;
  const std::vector<double> y = Values(GroupNormForward(params, x, scale, bias)->y);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], i % 2 == 0 ? 3 : -4, 1e-5);
}

}  // namespace
}  // namespace dpipe::ops
