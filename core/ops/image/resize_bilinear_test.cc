#include "core/ops/image/resize.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

class ResizeBilinearTest : public ::testing::TestWithParam<DType> {};

TEST_P(ResizeBilinearTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  const std::pair<Shape, Shape> cases[] = {{{1, 1, 1, 1}, {1, 3, 2, 1}},
                                           {{3, 2, 5, 7}, {3, 4, 10, 7}},
                                           {{2, 4, 4, 3}, {2, 16, 16, 3}},
                                           {{2, 5, 3, 2}, {2, 5, 4, 2}},
                                           {{1, 6, 6, 2}, {1, 4, 3, 2}}};
  for (const auto& [from, to] : cases) {
    const Tensor x = RandomTensor(cpu, from, GetParam(), 1);
    const Tensor y = *ResizeBilinearForward(x, to[1], to[2]);
    const Tolerance tolerance = {GetParam() == DType::kF32 ? 1e-6 : 1.0 / 128, 2e-6};
    ExpectClose(y, *ResizeBilinearForward(OnDevice(ref, x), to[1], to[2]), tolerance);
    ExpectSameBits(*ResizeBilinearForward(x.Slice(0, 1), to[1], to[2]), y.Slice(0, 1));
    const Tensor dy = RandomTensor(cpu, to, GetParam(), 2);
    const Tensor dx = *ResizeBilinearInputGrad(dy, from[1], from[2]);
    ExpectClose(dx, *ResizeBilinearInputGrad(OnDevice(ref, dy), from[1], from[2]),
                {tolerance.relative, 5e-6});
    ExpectSameBits(*ResizeBilinearInputGrad(dy.Slice(0, 1), from[1], from[2]), dx.Slice(0, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ResizeBilinearTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(ResizeBilinearReferenceTest, DoublesByQuarters) {
  const Tensor x = Tensor::FromHost<float>(Device::CpuReference(), {1, 1, 2, 1}, {0, 8});
  EXPECT_EQ(Values(*ResizeBilinearForward(x, 1, 4)), (std::vector<double>{0, 2, 6, 8}));
}

TEST(ResizeBilinearReferenceTest, GradientAgreesWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {2, 3, 2, 2}, DType::kF32, 3);
  const Tensor dy = RandomTensor(ref, {2, 6, 8, 2}, DType::kF32, 4);
  ExpectGradient([&](const Tensor& v) { return Dot(dy, *ResizeBilinearForward(v, 6, 8)); }, x,
                 *ResizeBilinearInputGrad(dy, 3, 2));
}

}  // namespace
}  // namespace dpipe::ops
