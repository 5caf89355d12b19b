#include "core/ops/norm/group_norm.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

class ModulateTest : public ::testing::TestWithParam<DType> {};

TEST_P(ModulateTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  // bf16: both results are rounded once, at worst to adjacent numbers.
  const double rounding = GetParam() == DType::kF32 ? 3e-6 : 1.0 / 128;
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5, 7}, Shape{2, 9, 16, 37}}) {
    for (bool silu : {false, true}) {
      const Tensor x = RandomTensor(cpu, shape, GetParam(), 1);
      const Tensor v = RandomTensor(cpu, {shape[0], 2 * shape[-1]}, GetParam(), 2);
      const Tensor dy = RandomTensor(cpu, shape, GetParam(), 3);
      const Tensor y = *ModulateForward(silu, x, v);
      ExpectClose(y, *ModulateForward(silu, OnDevice(ref, x), OnDevice(ref, v)), {rounding, 3e-6});
      const ModulateGrads grads = *ModulateInputGrad(silu, x, v, dy);
      const ModulateGrads expected =
          *ModulateInputGrad(silu, OnDevice(ref, x), OnDevice(ref, v), OnDevice(ref, dy));
      ExpectClose(grads.dx, expected.dx, {rounding, 3e-6});
      // Sums of up to 144 values of size 1 in fp32: 144 * 2^-24.
      ExpectClose(grads.dv, expected.dv, {rounding, 3e-5});
      // A sample's numbers do not depend on its batch.
      ExpectSameBits(*ModulateForward(silu, x.Slice(0, 1), v.Slice(0, 1)), y.Slice(0, 1));
      const ModulateGrads alone =
          *ModulateInputGrad(silu, x.Slice(0, 1), v.Slice(0, 1), dy.Slice(0, 1));
      ExpectSameBits(alone.dx, grads.dx.Slice(0, 1));
      ExpectSameBits(alone.dv, grads.dv.Slice(0, 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ModulateTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(ModulateReferenceTest, ScalesThenShifts) {
  const auto ref = Device::CpuReference();
  const Tensor x = Tensor::FromHost<float>(ref, {1, 2, 2}, {1, 2, 3, 4});
  const Tensor v = Tensor::FromHost<float>(ref, {1, 4}, {1, -1, 10, 20});
  EXPECT_EQ(Values(*ModulateForward(false, x, v)), (std::vector<double>{12, 20, 16, 20}));
}

TEST(ModulateReferenceTest, GradientsAgreeWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  for (bool silu : {false, true}) {
    const Tensor x = RandomTensor(ref, {2, 3, 5}, DType::kF32, 4);
    const Tensor v = RandomTensor(ref, {2, 10}, DType::kF32, 5);
    const Tensor dy = RandomTensor(ref, {2, 3, 5}, DType::kF32, 6);
    const ModulateGrads grads = *ModulateInputGrad(silu, x, v, dy);
    ExpectGradient([&](const Tensor& t) { return Dot(dy, *ModulateForward(silu, t, v)); }, x,
                   grads.dx);
    ExpectGradient([&](const Tensor& t) { return Dot(dy, *ModulateForward(silu, x, t)); }, v,
                   grads.dv);
  }
}

}  // namespace
}  // namespace dpipe::ops
