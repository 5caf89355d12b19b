#include "core/ops/embedding/rotary_embedding.h"

#include "core/ops/embedding/rotary_embedding_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

absl::StatusOr<Tensor> Rotated(const RotaryParams& params, bool inverse, const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 3) << x.shape();
  for (int64_t axis : params.axes) DPIPE_CHECK(axis >= 0 && axis % 2 == 0) << "axis of " << axis;
  DPIPE_CHECK(params.head_size() > 0 && x.dim(2) % params.head_size() == 0)
      << x.shape() << " with heads of " << params.head_size();
  DPIPE_CHECK(params.text_tokens >= 0 && params.text_tokens <= x.dim(1))
      << params.text_tokens << " text tokens of " << x.shape();
  DPIPE_CHECK_GT(params.image_columns, 0);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), inverse ? "rotary_embedding's input gradient" : "rotary_embedding",
      [&] { ref::RotaryEmbedding(params, inverse, x, &y); },
      [&] { cpu::RotaryEmbedding(params, inverse, x, &y); },
      [&] { cuda::RotaryEmbedding(params, inverse, x, &y); }));
  return y;
}

}  // namespace

absl::StatusOr<Tensor> RotaryEmbeddingForward(const RotaryParams& params, const Tensor& x) {
  return Rotated(params, /*inverse=*/false, x);
}

absl::StatusOr<Tensor> RotaryEmbeddingInputGrad(const RotaryParams& params, const Tensor& dy) {
  return Rotated(params, /*inverse=*/true, dy);
}

}  // namespace dpipe::ops
