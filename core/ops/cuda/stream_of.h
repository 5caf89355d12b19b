// Properties of tensors and devices that the CUDA implementations of ops need.
#ifndef DPIPE_CORE_OPS_CUDA_STREAM_OF_H_
#define DPIPE_CORE_OPS_CUDA_STREAM_OF_H_

#include "core/ops/cuda/kernels/column_walk.h"
#include "core/ops/cuda/kernels/images.h"
#include "core/ops/cuda/kernels/kernel.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// Returns the stream of a device of kind kCuda.
Stream StreamOf(const Device& device);
inline Stream StreamOf(const Tensor& t) { return StreamOf(*t.device()); }

// Returns the number of multiprocessors of the GPU, or of the device's share of it. An emulated
// device has as many as an H200.
int MultiprocessorsOf(const Device& device);

// Returns [B, ..., C] as a batch of positions.
inline ChannelsLast ChannelsLastOf(const Tensor& x) {
  return {x.dim(0), x.num_elements() / x.dim(0) / x.dim(-1), x.dim(-1)};
}

// [B, H, W, C].
inline ImageShape ImageShapeOf(const Tensor& x) { return {x.dim(0), x.dim(1), x.dim(2), x.dim(3)}; }

// Allocates `size` fp32 numbers on the tensor's device. May be dropped once the kernels that use it
// are enqueued, because memory is reused in stream order.
inline Tensor Workspace(const Tensor& like, int64_t size) {
  return Tensor::Empty(like.device(), {size}, DType::kF32);
}

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_STREAM_OF_H_
