#include "core/ops/cuda/parity.h"
#include "core/ops/elementwise/elementwise.h"

namespace dpipe::ops::cuda {
namespace {

// Whole packs, partial packs, the end of a block, and several blocks, for both element types.
const Shape kShapes[] = {{1}, {3, 5, 7}, {2, 2048}, {2, 17, 131}};

class ElementwiseParityTest : public ParityTest {};

TEST_P(ElementwiseParityTest, Activation) {
  for (Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu}) {
    for (const Shape& shape : kShapes) {
      // 1 + erf(x) cancels in the negative tail: 2^-24 |x dy| of absolute error, |x dy| up to 60.
      ExpectParity({Random(shape, GetParam(), 3), Random(shape)}, {2e-6, 8e-6},
                   [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                     return Tensors{*ActivationForward(activation, in[0]),
                                    *ActivationInputGrad(activation, in[0], in[1])};
                   });
    }
  }
}

TEST_P(ElementwiseParityTest, ActivationOfNanIsNan) {
  Tensor nan = Tensor::Empty(host_, {40}, GetParam());
  std::memset(nan.raw_data(), 0xff, nan.size_bytes());
  nan = OnDevice(device_, nan);
  for (Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kQuickGelu}) {
    const Tensor y = Here(*ActivationForward(activation, nan));
    for (double v : Values(y)) EXPECT_TRUE(std::isnan(v));
  }
}

TEST_P(ElementwiseParityTest, Geglu) {
  for (const Shape& y : {Shape{1, 1}, Shape{3, 5, 7}, Shape{5, 640}, Shape{9, 133}}) {
    Shape x = y;
    x.Set(-1, 2 * y[-1]);
    ExpectParity({Random(x, GetParam(), 2), Random(y)}, {2e-6, 8e-6},
                 [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   return Tensors{*GegluForward(in[0]), *GegluInputGrad(in[0], in[1])};
                 });
  }
}

TEST_P(ElementwiseParityTest, Multiply) {
  for (const Shape& shape : kShapes) {
    ExpectParity({Random(shape), Random(shape)}, {0, 0},
                 [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   return Tensors{*Multiply(in[0], in[1])};
                 });
  }
}

TEST_P(ElementwiseParityTest, AddScaleAndAxpy) {
  for (const Shape& shape : kShapes) {
    ExpectParity({Random(shape), Random(shape), Random(shape, DType::kF32)}, {3e-7, 3e-7},
                 [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   Tensor same = in[1].Clone(), wide = in[2].Clone();
                   DPIPE_RETURN_IF_ERROR(Axpy(0.3f, in[0], &same));
                   DPIPE_RETURN_IF_ERROR(Axpy(-1.7f, in[0], &wide));
                   return Tensors{*Add(in[0], in[1]), *Scale(2.5f, in[0]), same, wide};
                 });
  }
}

// Pointers that are not aligned to a pack, as in rows of odd length.
TEST_P(ElementwiseParityTest, ResultDoesNotDependOnPositionInTheTensor) {
  const Tensor x = OnDevice(device_, Random({5, 37})), dy = OnDevice(device_, Random({5, 37}));
  const Tensor y = *ActivationForward(Activation::kSilu, x), sum = *Add(x, dy);
  const Tensor dx = *ActivationInputGrad(Activation::kSilu, x, dy);
  for (int b = 0; b < 5; ++b) {
    const Tensor row = x.Slice(b, b + 1).Clone(), d = dy.Slice(b, b + 1);
    const Tensor alone = *ActivationForward(Activation::kSilu, row);
    ExpectSameBits(Here(alone), Here(y.Slice(b, b + 1)));
    ExpectSameBits(Here(*ActivationInputGrad(Activation::kSilu, row, d)), Here(dx.Slice(b, b + 1)));
    ExpectSameBits(Here(*Add(row, d)), Here(sum.Slice(b, b + 1)));
  }
}

TEST_P(ElementwiseParityTest, GatedAdd) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 130, 7}, Shape{2, 6, 5, 264}}) {
    // Sums of up to 130 products of size up to 20.
    ExpectParity({Random(shape), Random({shape[0], shape[-1]}), Random(shape), Random(shape)},
                 {3e-5, 2e-4}, [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   const GatedAddGrads grads = *GatedAddInputGrad(in[1], in[2], in[3]);
                   return Tensors{*GatedAddForward(in[0], in[1], in[2]), grads.dgate, grads.dh};
                 });
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ElementwiseParityTest,
                         ::testing::Values(DType::kF32, DType::kBf16));

}  // namespace
}  // namespace dpipe::ops::cuda
