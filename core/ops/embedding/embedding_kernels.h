// The implementations behind embedding.cc and positions.cc. Ids are within the table on host
// devices. `inverse`: rotates by the negative angles.
#ifndef DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_KERNELS_H_
#define DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_KERNELS_H_

#include "core/ops/embedding/embedding.h"
#include "core/ops/embedding/positions.h"

namespace dpipe::ops {

struct EmbeddingKernels {
  void (*embedding_forward)(const Tensor& ids, const Tensor& table, const Tensor& positions,
                            Tensor* y);
  void (*embedding_weight_grad)(const Tensor& ids, const Tensor& dy, Tensor* dtable,
                                Tensor* dpositions);
  void (*rotary_embedding)(const RotaryParams& params, bool inverse, const Tensor& x, Tensor* y);

  static const EmbeddingKernels kReference, kCpu, kCuda;
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_EMBEDDING_KERNELS_H_
