#include "core/ops/embedding/positions.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

RotaryParams Params(const std::array<int64_t, 3>& axes, int64_t text_tokens, int64_t columns) {
  RotaryParams params;
  params.axes = axes;
  params.text_tokens = text_tokens;
  params.image_columns = columns;
  return params;
}

class RotaryEmbeddingTest : public ::testing::TestWithParam<DType> {};

TEST_P(RotaryEmbeddingTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  // Sines rounded to fp32, and two products. bf16: adjacent numbers.
  const double rounding = GetParam() == DType::kF32 ? 5e-7 : 1.0 / 128;
  const struct {
    RotaryParams params;
    Shape x;
  } cases[] = {{Params({2, 4, 6}, 5, 4), {2, 5 + 12, 3 * 12}},
               {Params({16, 56, 56}, 0, 7), {1, 21, 2 * 128}},
               {Params({0, 2, 2}, 3, 1), {3, 3 + 40, 4}},
               {Params({4, 2, 2}, 6, 9), {1, 6, 16}}};  // no image
  for (const auto& c : cases) {
    const Tensor x = RandomTensor(cpu, c.x, GetParam(), 1);
    const Tensor y = *RotaryEmbeddingForward(c.params, x);
    ExpectClose(y, *RotaryEmbeddingForward(c.params, OnDevice(ref, x)), {rounding, 1e-6});
    ExpectClose(*RotaryEmbeddingInputGrad(c.params, x),
                *RotaryEmbeddingInputGrad(c.params, OnDevice(ref, x)), {rounding, 1e-6});
    ExpectSameBits(*RotaryEmbeddingForward(c.params, x.Slice(0, 1)), y.Slice(0, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, RotaryEmbeddingTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(RotaryEmbeddingReferenceTest, GradientAgreesWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const RotaryParams params = Params({2, 4, 6}, 2, 3);
  const Tensor x = RandomTensor(ref, {2, 8, 24}, DType::kF32, 1);
  const Tensor dy = RandomTensor(ref, {2, 8, 24}, DType::kF32, 2);
  ExpectGradient([&](const Tensor& t) { return Dot(dy, *RotaryEmbeddingForward(params, t)); }, x,
                 *RotaryEmbeddingInputGrad(params, dy));
}

// A token at row 2, column 1. Axes: one pair that does not turn, two pairs by rows, with
// frequencies 1 and 1/100, and one pair by columns.
TEST(RotaryEmbeddingReferenceTest, ByHand) {
  const auto ref = Device::CpuReference();
  const RotaryParams params = Params({2, 4, 2}, 1, 3);
  Tensor x = Tensor::Zeros(ref, {1, 1 + 9, 8}, DType::kF32);
  for (int i = 0; i < 8; i += 2) x.data<float>()[(1 + 7) * 8 + i] = 1;
  x.data<float>()[0] = 5;  // a text token
  const std::vector<double> y = Values(*RotaryEmbeddingForward(params, x));
  EXPECT_EQ(y[0], 5);
  const double expected[] = {
      1, 0, std::cos(2), std::sin(2), std::cos(0.02), std::sin(0.02), std::cos(1), std::sin(1)};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(y[(1 + 7) * 8 + i], expected[i], 1e-7) << i;
}

// Products of queries and keys depend on the difference of positions alone.
TEST(RotaryEmbeddingReferenceTest, ProductsDependOnDistances) {
  const auto ref = Device::CpuReference();
  const RotaryParams params = Params({4, 6, 6}, 0, 5);
  const Tensor q = RandomTensor(ref, {1, 1, 16}, DType::kF32, 1);
  const Tensor k = RandomTensor(ref, {1, 1, 16}, DType::kF32, 2);
  const auto rotated = [&](const Tensor& x, int64_t row, int64_t column) {
    Tensor tokens = Tensor::Zeros(ref, {1, 25, 16}, DType::kF32);
    std::copy_n(x.data<float>(), 16, tokens.data<float>() + (row * 5 + column) * 16);
    return RotaryEmbeddingForward(params, tokens)
        ->Reshape({25, 16})
        .Slice(row * 5 + column, row * 5 + column + 1);
  };
  EXPECT_NEAR(Dot(rotated(q, 1, 0), rotated(k, 2, 3)), Dot(rotated(q, 3, 1), rotated(k, 4, 4)),
              1e-5);
}

}  // namespace
}  // namespace dpipe::ops
