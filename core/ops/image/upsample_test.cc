#include "core/ops/image/resize.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

class UpsampleTest : public ::testing::TestWithParam<DType> {};

TEST_P(UpsampleTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{3, 2, 5, 7}, Shape{2, 3, 1, 33}}) {
    const Tensor x = RandomTensor(cpu, shape, GetParam(), 1);
    const Tensor y = *UpsampleNearest2xForward(x);
    ExpectSameBits(y, *UpsampleNearest2xForward(OnDevice(ref, x)));
    // A sum of four values of size 1: two fp32 roundings, then one to bf16.
    const Tensor dy = RandomTensor(cpu, y.shape(), GetParam(), 2);
    const Tensor dx = *UpsampleNearest2xInputGrad(dy);
    ExpectClose(dx, *UpsampleNearest2xInputGrad(OnDevice(ref, dy)),
                {GetParam() == DType::kF32 ? 1e-6 : 1.0 / 128, 5e-7});
    ExpectSameBits(*UpsampleNearest2xInputGrad(dy.Slice(0, 1)), dx.Slice(0, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, UpsampleTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(UpsampleReferenceTest, RepeatsPixels) {
  const Tensor x = Tensor::FromHost<float>(Device::CpuReference(), {1, 1, 2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(Values(*UpsampleNearest2xForward(x)),
            (std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST(UpsampleReferenceTest, GradientAgreesWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {2, 3, 2, 3}, DType::kF32, 3);
  const Tensor dy = RandomTensor(ref, {2, 6, 4, 3}, DType::kF32, 4);
  ExpectGradient([&](const Tensor& v) { return Dot(dy, *UpsampleNearest2xForward(v)); }, x,
                 *UpsampleNearest2xInputGrad(dy));
}

}  // namespace
}  // namespace dpipe::ops
