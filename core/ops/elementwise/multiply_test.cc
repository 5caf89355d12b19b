#include "core/ops/elementwise/elementwise.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

class MultiplyTest : public ::testing::TestWithParam<DType> {};

// One rounding of the exact product, on both devices: the same bits.
TEST_P(MultiplyTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5, 7, 13}, Shape{2, 301, 77}}) {
    const Tensor a = RandomTensor(cpu, shape, GetParam(), 1);
    const Tensor b = RandomTensor(cpu, shape, GetParam(), 2);
    ExpectClose(*Multiply(a, b), *Multiply(OnDevice(ref, a), OnDevice(ref, b)),
                {GetParam() == DType::kF32 ? 0 : 1.0 / 128, 0});
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, MultiplyTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(MultiplyReferenceTest, GradientsAgreeWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor a = RandomTensor(ref, {3, 11}, DType::kF32, 1);
  const Tensor b = RandomTensor(ref, {3, 11}, DType::kF32, 2);
  const Tensor dy = RandomTensor(ref, {3, 11}, DType::kF32, 3);
  ExpectGradient([&](const Tensor& v) { return Dot(dy, *Multiply(v, b)); }, a, *Multiply(dy, b));
  ExpectGradient([&](const Tensor& v) { return Dot(dy, *Multiply(a, v)); }, b, *Multiply(dy, a));
}

}  // namespace
}  // namespace dpipe::ops
