#include "core/ops/elementwise/elementwise.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

class GatedAddTest : public ::testing::TestWithParam<DType> {};

TEST_P(GatedAddTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  // Two fp32 operations. bf16: both results are rounded once, at worst to adjacent numbers.
  const double rounding = GetParam() == DType::kF32 ? 5e-7 : 1.0 / 128;
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5, 7}, Shape{2, 9, 16, 37}}) {
    const Tensor x = RandomTensor(cpu, shape, GetParam(), 1);
    const Tensor h = RandomTensor(cpu, shape, GetParam(), 2);
    const Tensor gate = RandomTensor(cpu, {shape[0], shape[-1]}, GetParam(), 3);
    const Tensor dy = RandomTensor(cpu, shape, GetParam(), 4);
    const Tensor y = *GatedAddForward(x, gate, h);
    ExpectClose(y, *GatedAddForward(OnDevice(ref, x), OnDevice(ref, gate), OnDevice(ref, h)),
                {rounding, 1e-6});
    const GatedAddGrads grads = *GatedAddInputGrad(gate, h, dy);
    const GatedAddGrads expected =
        *GatedAddInputGrad(OnDevice(ref, gate), OnDevice(ref, h), OnDevice(ref, dy));
    ExpectClose(grads.dh, expected.dh, {rounding, 1e-6});
    // Sums of up to 144 values of size 1 in fp32: 144 * 2^-24.
    ExpectClose(grads.dgate, expected.dgate, {rounding, 3e-5});
    // A sample's numbers do not depend on its batch.
    const auto first = [](const Tensor& t) { return t.Slice(0, 1); };
    ExpectSameBits(*GatedAddForward(first(x), first(gate), first(h)), first(y));
    const GatedAddGrads alone = *GatedAddInputGrad(first(gate), first(h), first(dy));
    ExpectSameBits(alone.dh, first(grads.dh));
    ExpectSameBits(alone.dgate, first(grads.dgate));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, GatedAddTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(GatedAddReferenceTest, ByHand) {
  const auto ref = Device::CpuReference();
  const Tensor x = Tensor::FromHost<float>(ref, {1, 2, 2}, {1, 2, 3, 4});
  const Tensor h = Tensor::FromHost<float>(ref, {1, 2, 2}, {1, 1, 2, 3});
  const Tensor gate = Tensor::FromHost<float>(ref, {1, 2}, {10, -1});
  EXPECT_EQ(Values(*GatedAddForward(x, gate, h)), (std::vector<double>{11, 1, 23, 1}));
}

TEST(GatedAddReferenceTest, GradientsAgreeWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {2, 3, 5}, DType::kF32, 5);
  const Tensor h = RandomTensor(ref, {2, 3, 5}, DType::kF32, 6);
  const Tensor gate = RandomTensor(ref, {2, 5}, DType::kF32, 7);
  const Tensor dy = RandomTensor(ref, {2, 3, 5}, DType::kF32, 8);
  const GatedAddGrads grads = *GatedAddInputGrad(gate, h, dy);
  ExpectGradient([&](const Tensor& t) { return Dot(dy, *GatedAddForward(t, gate, h)); }, x, dy);
  ExpectGradient([&](const Tensor& t) { return Dot(dy, *GatedAddForward(x, t, h)); }, gate,
                 grads.dgate);
  ExpectGradient([&](const Tensor& t) { return Dot(dy, *GatedAddForward(x, gate, t)); }, h,
                 grads.dh);
}

}  // namespace
}  // namespace dpipe::ops
