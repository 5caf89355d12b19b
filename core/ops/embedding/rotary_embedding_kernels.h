// The implementations behind rotary_embedding.cc. `inverse`: rotates by the negative angles.
#ifndef DPIPE_CORE_OPS_EMBEDDING_ROTARY_EMBEDDING_KERNELS_H_
#define DPIPE_CORE_OPS_EMBEDDING_ROTARY_EMBEDDING_KERNELS_H_

#include "core/ops/embedding/rotary_embedding.h"

namespace dpipe::ops {
namespace ref {
void RotaryEmbedding(const RotaryParams& params, bool inverse, const Tensor& x, Tensor* y);
}  // namespace ref
namespace cpu {
void RotaryEmbedding(const RotaryParams& params, bool inverse, const Tensor& x, Tensor* y);
}  // namespace cpu
namespace cuda {
void RotaryEmbedding(const RotaryParams& params, bool inverse, const Tensor& x, Tensor* y);
}  // namespace cuda
}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_ROTARY_EMBEDDING_KERNELS_H_
