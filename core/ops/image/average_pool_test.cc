#include "core/ops/image/resize.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

class AveragePoolTest : public ::testing::TestWithParam<DType> {};

TEST_P(AveragePoolTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  for (const Shape& shape : {Shape{1, 2, 2, 1}, Shape{3, 4, 10, 7}, Shape{2, 6, 2, 33}}) {
    const Tensor x = RandomTensor(cpu, shape, GetParam(), 1);
    const Tensor y = *AveragePool2xForward(x);
    // A sum of four values of size 1: two fp32 roundings, then one to bf16.
    ExpectClose(y, *AveragePool2xForward(OnDevice(ref, x)),
                {GetParam() == DType::kF32 ? 1e-6 : 1.0 / 128, 5e-7});
    ExpectSameBits(*AveragePool2xForward(x.Slice(0, 1)), y.Slice(0, 1));
    const Tensor dy = RandomTensor(cpu, y.shape(), GetParam(), 2);
    ExpectSameBits(*AveragePool2xInputGrad(dy), *AveragePool2xInputGrad(OnDevice(ref, dy)));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, AveragePoolTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(AveragePoolReferenceTest, AveragesSquares) {
  const Tensor x =
      Tensor::FromHost<float>(Device::CpuReference(), {1, 2, 4, 1}, {1, 2, 10, 20, 3, 6, 30, 40});
  EXPECT_EQ(Values(*AveragePool2xForward(x)), (std::vector<double>{3, 25}));
}

TEST(AveragePoolReferenceTest, GradientAgreesWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {2, 6, 4, 3}, DType::kF32, 3);
  const Tensor dy = RandomTensor(ref, {2, 3, 2, 3}, DType::kF32, 4);
  ExpectGradient([&](const Tensor& v) { return Dot(dy, *AveragePool2xForward(v)); }, x,
                 *AveragePool2xInputGrad(dy));
}

}  // namespace
}  // namespace dpipe::ops
