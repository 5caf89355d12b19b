// Convolutions and attention by cuDNN.
//
// Functions return Unimplemented if cuDNN has no engine with the promised properties (deterministic
// sums in fp32), on emulated devices, and in builds without CUDA. Callers then use products and
// their own kernels. NotFound if the library is missing.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_OPS_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_OPS_H_

#include <cstdint>
#include <memory>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// x [batch, height, width, channels], filters [outputs, rows, columns, channels], y [batch,
// out_height, out_width, outputs]. x, filters and y have one element type.
struct Convolution {
  int64_t batch, height, width, channels;
  int64_t outputs, rows, columns;
  int64_t out_height, out_width;
  int64_t stride, pad_top, pad_bottom, pad_left, pad_right;
};

// There is no bias: an engine with a bias would be compiled on first use, which takes seconds, and
// would save half a percent of a U-Net's pass.
absl::Status ConvolveByCudnn(const Convolution& shape, const Tensor& x, const Tensor& filters,
                             const Tensor& y);
absl::Status ConvolveInputGradByCudnn(const Convolution& shape, const Tensor& dy,
                                      const Tensor& filters, const Tensor& dx);
// dfilters has x's element type, to which its fp32 sums are rounded. It is overwritten.
absl::Status ConvolveFilterGradByCudnn(const Convolution& shape, const Tensor& x, const Tensor& dy,
                                       const Tensor& dfilters);

// q, y [batch, queries, heads * size]; k, v [batch, keys, heads * size]: bf16.
struct AttentionShape {
  int64_t batch, heads, queries, keys, size;
  float scale;
  bool causal = false;  // query i sees only keys 0 to i
  // The gradient adds up dq in an order that varies from run to run, and needs no ds in the
  // workspace.
  bool nondeterministic = false;
};

// The gradient's workspace comes from the device. It is 1.5 GiB, or the size for one sample if that
// is larger; the batch is processed in parts that fit. log_sums: fp32 [batch, heads, queries],
// log(sum(exp(scale * q k^T))) over the keys that a query sees.
absl::Status AttendByCudnn(const AttentionShape& shape, const Tensor& q, const Tensor& k,
                           const Tensor& v, const Tensor& y, float* log_sums);
absl::Status AttendGradByCudnn(const AttentionShape& shape, const Tensor& dy, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& y,
                               const float* log_sums, const Tensor& dq, const Tensor& dk,
                               const Tensor& dv);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_OPS_H_
