#include <cmath>

#include "core/ops/cuda/kernels/positions.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/embedding/rotary_embedding_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void RotaryEmbedding(const RotaryParams& params, bool inverse, const Tensor& x, Tensor* y) {
  const RotaryShape shape = {x.dim(0),
                             x.dim(1),
                             x.dim(2) / params.head_size(),
                             params.text_tokens,
                             params.image_columns,
                             {params.axes[0] / 2, params.axes[1] / 2, params.axes[2] / 2},
                             std::log(params.theta),
                             inverse ? -1.0f : 1.0f};
  WithElements([&](const auto* from, auto* to) { Rotate(StreamOf(x), shape, from, to); }, x, *y);
}

}  // namespace dpipe::ops::cuda
