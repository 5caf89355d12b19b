#include "core/ops/elementwise/elementwise.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

// As for the activations; products of two values have the size of |value * gate|, up to about 30.
Tolerance For(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{2e-6, 2e-6} : Tolerance{1.0 / 128, 2e-6};
}

class GegluTest : public ::testing::TestWithParam<DType> {};

TEST_P(GegluTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  for (const Shape& shape : {Shape{1, 2}, Shape{3, 5, 14}, Shape{2, 7, 2 * 131}}) {
    const Tensor x = RandomTensor(cpu, shape, GetParam(), 1, 2);
    const Tensor y = *GegluForward(x);
    const Tensor dy = RandomTensor(cpu, y.shape(), GetParam(), 2);
    ExpectClose(y, *GegluForward(OnDevice(ref, x)), For(GetParam()));
    ExpectClose(*GegluInputGrad(x, dy), *GegluInputGrad(OnDevice(ref, x), OnDevice(ref, dy)),
                For(GetParam()));
  }
}

TEST_P(GegluTest, SampleDoesNotDependOnItsNeighbours) {
  const auto cpu = Device::Cpu();
  const Tensor x = RandomTensor(cpu, {4, 3, 38}, GetParam(), 3, 2);
  const Tensor dy = RandomTensor(cpu, {4, 3, 19}, GetParam(), 4);
  ExpectSameBits(*GegluForward(x.Slice(2, 3)), GegluForward(x)->Slice(2, 3));
  ExpectSameBits(*GegluInputGrad(x.Slice(2, 3), dy.Slice(2, 3)),
                 GegluInputGrad(x, dy)->Slice(2, 3));
}

INSTANTIATE_TEST_SUITE_P(DTypes, GegluTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(GegluReferenceTest, ValueComesFirst) {
  const Tensor x = Tensor::FromHost<float>(Device::CpuReference(), {1, 2}, {10.0f, 1.0f});
  EXPECT_NEAR(GegluForward(x)->data<float>()[0], 8.413447, 1e-5);
}

TEST(GegluReferenceTest, GradientAgreesWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {3, 22}, DType::kF32, 5);
  const Tensor dy = RandomTensor(ref, {3, 11}, DType::kF32, 6);
  ExpectGradient([&](const Tensor& v) { return Dot(dy, *GegluForward(v)); }, x,
                 *GegluInputGrad(x, dy));
}

}  // namespace
}  // namespace dpipe::ops
