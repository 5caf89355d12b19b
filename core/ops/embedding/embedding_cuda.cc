#include "core/ops/cuda/any_floats.h"
#include "core/ops/cuda/kernels/lookups.h"
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

}  // namespace dpipe::ops::cuda
