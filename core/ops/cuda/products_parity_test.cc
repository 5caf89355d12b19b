#include "core/ops/attention.h"
#include "core/ops/conv2d.h"
#include "core/ops/cuda/parity.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/linear.h"

namespace dpipe::ops::cuda {
namespace {

class ProductsParityTest : public ParityTest {
 protected:
  // Sums of products of normal numbers: the weights' scale keeps results of size 1. bf16 weights
  // are the same on both devices, so only roundings of fp32 sums count.
  Tensor Weights(const Shape& shape, int64_t terms) {
    return Random(shape, DType::kF32, 1 / std::sqrt(static_cast<float>(terms)));
  }
};

TEST_P(ProductsParityTest, Linear) {
  struct Case {
    Shape x;
    int64_t out;
  };
  // The last one's bias gradient is not the product's (ShouldSumRows).
  for (const Case& c :
       {Case{{1, 1}, 1}, Case{{3, 5, 7}, 9}, Case{{2, 33, 40}, 64}, Case{{3, 343, 5}, 7}}) {
    const int64_t in = c.x[-1];
    Shape y = c.x;
    y.Set(-1, c.out);
    // Of values that bf16 holds, since cuBLASLt takes a bias in the result's type.
    const Tensor bias = Random({c.out}).To(DType::kF32);
    const Tensors inputs = {Random(c.x), Weights({c.out, in}, in), bias, Random(y)};
    ExpectParity(inputs, {1e-5, 1e-4}, [](const Tensors& t) -> absl::StatusOr<Tensors> {
      const Weight w(t[1]);
      Tensor dw = t[1].Clone(), db = t[2].Clone(), dw_alone = t[1].Clone();
      DPIPE_RETURN_IF_ERROR(LinearWeightGrad(t[0], t[3], &dw, &db));
      DPIPE_RETURN_IF_ERROR(LinearWeightGrad(t[0], t[3], &dw_alone, nullptr));
      return Tensors{*LinearForward(t[0], w, t[2]),
                     *LinearForward(t[0], w, Tensor()),
                     *LinearForward(t[0], w, t[2], t[3]),
                     *LinearForward(t[0], w, Tensor(), t[3]),
                     *LinearInputGrad(t[3], w),
                     *LinearInputGrad(t[3], w, t[0]),
                     dw,
                     db,
                     dw_alone};
    });
  }
}

TEST_P(ProductsParityTest, Conv2d) {
  struct Case {
    Shape x, w;
    Conv2dParams params;
  };
  const Case cases[] = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}, Conv2dSymmetric(1, 0)},
      {{2, 5, 7, 3}, {4, 3, 3, 3}, Conv2dSymmetric(1, 1)},
      {{2, 6, 5, 9}, {7, 9, 1, 1}, Conv2dSymmetric(1, 0)},
      {{1, 8, 8, 16}, {8, 16, 3, 3}, Conv2dSymmetric(2, 1)},
      {{2, 7, 9, 4}, {3, 4, 3, 3}, {2, 0, 1, 0, 1}},  // the VAE's
      {{1, 6, 6, 5}, {2, 5, 4, 3}, {3, 2, 1, 0, 2}},
      {{2, 4, 4, 3}, {5, 3, 1, 1}, Conv2dSymmetric(2, 0)},
  };
  for (const Case& c : cases) {
    const Shape y = Conv2dOutputShape(c.params, c.x, c.w);
    const Tensors inputs = {Random(c.x), Weights(c.w, c.w.num_elements() / c.w[0]),
                            Random({c.w[0]}, DType::kF32), Random(y), Random({y[0], y[3]})};
    // On a GPU cuDNN rounds what the bias and the addend are added to, and the filters' gradients,
    // to bf16. Without it, what is added to a sample's channels is added to a rounded product.
    const bool is_bf16 = GetParam() == DType::kBf16, rounded = !StreamOf(*device_).emulated;
    const Tolerance loose = {1e-5, is_bf16 ? 6e-2 : 1e-4};
    const Tolerance tolerance = rounded ? loose : Tolerance{1e-5, 1e-4};
    ExpectParity(inputs, tolerance, [&](const Tensors& t) -> absl::StatusOr<Tensors> {
      const Weight w(t[1]);
      Tensor dw = t[1].Clone(), db = t[2].Clone(), dw_alone = t[1].Clone();
      DPIPE_RETURN_IF_ERROR(Conv2dWeightGrad(c.params, t[0], t[3], &dw, &db));
      DPIPE_RETURN_IF_ERROR(Conv2dWeightGrad(c.params, t[0], t[3], &dw_alone, nullptr));
      return Tensors{*Conv2dForward(c.params, t[0], w, t[2]),
                     *Conv2dForward(c.params, t[0], w, Tensor()),
                     *Conv2dForward(c.params, t[0], w, t[2], t[3]),
                     *Conv2dInputGrad(c.params, t[3], w, c.x),
                     dw,
                     db,
                     dw_alone};
    });
    ExpectParity(inputs, loose, [&](const Tensors& t) -> absl::StatusOr<Tensors> {
      const Weight w(t[1]);
      return Tensors{*Conv2dForward(c.params, t[0], w, t[2], t[4]),
                     *Conv2dForward(c.params, t[0], w, Tensor(), t[4])};
    });
  }
}

TEST_P(ProductsParityTest, Attention) {
  struct Case {
    int64_t batch, queries, keys, width;
    int heads;
    bool causal;
  };
  const Case cases[] = {{1, 1, 1, 1, 1, false},
                        {2, 5, 7, 12, 3, false},
                        {1, 64, 77, 40, 1, false},
                        {2, 33, 33, 16, 2, true},
                        {1, 70, 3, 24, 8, false}};
  // Probabilities and their gradients are rounded to bf16 between the products, 2^-9 of each of
  // numbers below 1; sums of them over the keys or queries err by as much again.
  const Tolerance tolerance =
      GetParam() == DType::kF32 ? Tolerance{2e-5, 2e-5} : Tolerance{0, 3e-2};
  for (const Case& c : cases) {
    AttentionParams params;
    params.num_heads = c.heads;
    params.scale = AttentionScale(c.width, c.heads);
    params.causal = c.causal;
    const Shape q = {c.batch, c.queries, c.width}, k = {c.batch, c.keys, c.width};
    ExpectParity({Random(q), Random(k), Random(k), Random(q)}, tolerance,
                 [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                   const AttentionResult kept = *AttentionForward(params, in[0], in[1], in[2]);
                   const AttentionResult only =
                       *AttentionForward(params, in[0], in[1], in[2], /*keep_saved=*/false);
                   const AttentionGrads grads =
                       *AttentionInputGrad(params, in[3], in[0], in[1], in[2], kept.saved);
                   return Tensors{kept.y, only.y, grads.dq, grads.dk, grads.dv};
                 });
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ProductsParityTest, ::testing::Values(DType::kF32, DType::kBf16));

}  // namespace
}  // namespace dpipe::ops::cuda
