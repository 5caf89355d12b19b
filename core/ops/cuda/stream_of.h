// What the CUDA side of an op asks of its tensors.
#ifndef DPIPE_CORE_OPS_CUDA_STREAM_OF_H_
#define DPIPE_CORE_OPS_CUDA_STREAM_OF_H_

#include "core/ops/cuda/column_walk.h"
#include "core/ops/cuda/images.h"
#include "core/ops/cuda/kernel.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// The stream that a device of kind kCuda works on.
Stream StreamOf(const Device& device);
inline Stream StreamOf(const Tensor& t) { return StreamOf(*t.device()); }

// Those of the GPU, or of the device's share of it; an emulated one has as many as an H200.
int MultiprocessorsOf(const Device& device);

// [B, ..., C] as one batch of positions.
inline ChannelsLast ChannelsLastOf(const Tensor& x) {
  return {x.dim(0), x.num_elements() / x.dim(0) / x.dim(-1), x.dim(-1)};
}

// [B, H, W, C].
inline ImageShape ImageShapeOf(const Tensor& x) { return {x.dim(0), x.dim(1), x.dim(2), x.dim(3)}; }

// Room for `size` fp32 numbers on the tensor's device. It may be dropped when the kernels that use
// it are enqueued, since memory is handed out again in the stream's order.
inline Tensor Workspace(const Tensor& like, int64_t size) {
  return Tensor::Empty(like.device(), {size}, DType::kF32);
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_STREAM_OF_H_
