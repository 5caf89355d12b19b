#include <cmath>

#include "core/ops/cuda/any_floats.h"
#include "core/ops/cuda/kernels/embedding.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/embedding/embedding_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {

void EmbeddingForward(const Tensor& ids, const Tensor& table, const Tensor& positions, Tensor* y) {
  const EmbeddingShape shape = {ids.dim(0), ids.dim(1), table.dim(1), table.dim(0)};
  WithElements(
      [&](auto* to) {
        EmbedTokens(StreamOf(*y), shape, ids.data<int32_t>(), table.data<float>(),
                    DataOrNull(positions), to);
      },
      *y);
}

void EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable, Tensor* dpositions) {
  const int64_t vocabulary = dtable == nullptr ? 0 : dtable->dim(0);
  const EmbeddingShape shape = {ids.dim(0), ids.dim(1), dy.dim(2), vocabulary};
  WithElements(
      [&](const auto* grad) {
        EmbedTokensGrad(StreamOf(dy), shape, ids.data<int32_t>(), grad,
                        dtable == nullptr ? nullptr : dtable->data<float>(),
                        dpositions == nullptr ? nullptr : dpositions->data<float>());
      },
      dy);
}

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

namespace dpipe::ops {

const EmbeddingKernels EmbeddingKernels::kCuda = {cuda::EmbeddingForward, cuda::EmbeddingWeightGrad,
                                                  cuda::RotaryEmbedding};

}  // namespace dpipe::ops
