#include "core/ops/norm/group_norm.h"
#include "core/ops/norm/layer_norm.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

// Returns the inverse order of v's halves.
Tensor Swapped(const Tensor& v) {
  Tensor swapped = Tensor::Empty(v.device(), v.shape(), v.dtype());
  const int64_t row = v.size_bytes() / v.dim(0), half = row / 2;
  for (int64_t b = 0; b < v.dim(0); ++b) {
    char* const to = static_cast<char*>(swapped.raw_data()) + b * row;
    const char* const from = static_cast<const char*>(v.raw_data()) + b * row;
    std::memcpy(to, from + half, half);
    std::memcpy(to + half, from, half);
  }
  return swapped;
}

class ModulatedLayerNormTest : public ::testing::TestWithParam<DType> {};

TEST_P(ModulatedLayerNormTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  // As in layer_norm_test.cc, but results are up to 5 times the scale.
  const Tolerance tolerance = {GetParam() == DType::kF32 ? 2e-5 : 1.0 / 128, 2e-5};
  for (const Shape& shape : {Shape{1, 3}, Shape{3, 77, 40}, Shape{2, 130, 321}}) {
    for (const bool shift_first : {false, true}) {
      const ModulatedLayerNormParams params = {1e-6f, shift_first};
      const Tensor x = RandomTensor(cpu, shape, GetParam(), 1, 2, 1);
      const Tensor v = RandomTensor(cpu, {shape[0], 2 * shape[-1]}, GetParam(), 2);
      const Tensor dy = RandomTensor(cpu, shape, GetParam(), 3);
      const Tensor later = RandomTensor(cpu, shape, GetParam(), 4);
      const auto y = *ModulatedLayerNormForward(params, x, v);
      const auto y_ref = *ModulatedLayerNormForward(params, OnDevice(ref, x), OnDevice(ref, v));
      ExpectClose(y.y, y_ref.y, tolerance);
      const auto g = *ModulatedLayerNormInputGrad(params, x, dy, y.stats, y.scale, later);
      const auto g_ref = *ModulatedLayerNormInputGrad(params, OnDevice(ref, x), OnDevice(ref, dy),
                                                      OnDevice(ref, y.stats),
                                                      OnDevice(ref, y.scale), OnDevice(ref, later));
      ExpectClose(g.dx, g_ref.dx, tolerance);
      // Up to 130 terms of size 1 to 5, in order: at worst 130 * 2^-24 * 5.
      ExpectClose(g.dv, g_ref.dv, {tolerance.relative, 4e-5});
      // The halves' order changes nothing else.
      const ModulatedLayerNormParams swapped = {1e-6f, !shift_first};
      ExpectSameBits(ModulatedLayerNormForward(swapped, x, Swapped(v))->y, y.y);
      const auto g_swapped = *ModulatedLayerNormInputGrad(swapped, x, dy, y.stats, y.scale, later);
      ExpectSameBits(Swapped(g_swapped.dv), g.dv);
      ExpectSameBits(g_swapped.dx, g.dx);
      // A sample's numbers do not depend on its batch.
      const auto first = [](const Tensor& t) { return t.Slice(0, 1); };
      const auto alone = *ModulatedLayerNormForward(params, first(x), first(v));
      ExpectSameBits(alone.y, first(y.y));
      const auto g_alone = *ModulatedLayerNormInputGrad(params, first(x), first(dy), alone.stats,
                                                        alone.scale, first(later));
      ExpectSameBits(g_alone.dx, first(g.dx));
      ExpectSameBits(g_alone.dv, first(g.dv));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ModulatedLayerNormTest,
                         ::testing::Values(DType::kF32, DType::kBf16));

// The same as the two ops one after the other.
TEST(ModulatedLayerNormReferenceTest, IsLayerNormThenModulation) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {2, 4, 6}, DType::kF32, 1, 2, 1);
  const Tensor v = RandomTensor(ref, {2, 12}, DType::kF32, 2);  // [scale | shift]
  Tensor ones = Tensor::Empty(ref, {6}, DType::kF32);
  for (float& one : ones.span<float>()) one = 1;
  const LayerNormResult norm =
      *LayerNormForward({1e-6f}, x, ones, Tensor::Zeros(ref, {6}, DType::kF32));
  ExpectClose(ModulatedLayerNormForward({1e-6f, false}, x, v)->y,
              *ModulateForward(false, norm.y, v), {1e-6, 1e-6});
}

TEST(ModulatedLayerNormReferenceTest, GradientsAgreeWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  for (const bool shift_first : {false, true}) {
    const ModulatedLayerNormParams params = {1e-6f, shift_first};
    const Tensor x = RandomTensor(ref, {2, 3, 7}, DType::kF32, 1);
    const Tensor v = RandomTensor(ref, {2, 14}, DType::kF32, 2);
    const Tensor dy = RandomTensor(ref, {2, 3, 7}, DType::kF32, 3);
    const auto y = *ModulatedLayerNormForward(params, x, v);
    const auto grads = *ModulatedLayerNormInputGrad(params, x, dy, y.stats, y.scale);
    ExpectGradient(
        [&](const Tensor& t) { return Dot(dy, ModulatedLayerNormForward(params, t, v)->y); }, x,
        grads.dx);
    ExpectGradient(
        [&](const Tensor& t) { return Dot(dy, ModulatedLayerNormForward(params, x, t)->y); }, v,
        grads.dv);
  }
}

}  // namespace
}  // namespace dpipe::ops
