// The implementations behind embedding.cc. Ids are within the table.
#ifndef DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_KERNELS_H_
#define DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_KERNELS_H_

#include "core/tensor/tensor.h"

namespace dpipe::ops {
namespace ref {
void EmbeddingForward(const Tensor& ids, const Tensor& table, const Tensor& positions, Tensor* y);
void EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable, Tensor* dpositions);
}  // namespace ref
namespace cpu {
void EmbeddingForward(const Tensor& ids, const Tensor& table, const Tensor& positions, Tensor* y);
void EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable, Tensor* dpositions);
}  // namespace cpu
namespace cuda {
void EmbeddingForward(const Tensor& ids, const Tensor& table, const Tensor& positions, Tensor* y);
void EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable, Tensor* dpositions);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_KERNELS_H_
