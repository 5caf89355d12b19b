// Descriptions of the graphs that cudnn_ops.h runs.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_GRAPHS_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_GRAPHS_H_

#include "core/base/status.h"
#include "core/ops/cuda/cudnn/cudnn_graph.h"
#include "core/ops/cuda/cudnn/cudnn_ops.h"

namespace dpipe::ops::cuda {

// Ids of the tensors, by which a plan receives their memory.
enum CudnnId : int64_t {
  kImage = 1,      // x, dx
  kFilters,        // w, dw
  kOutput,         // y, dy
  kQueries,        // q
  kKeys,           // k
  kValues,         // v
  kAttended,       // y
  kLogSums,        // fp32
  kScale,          // fp32, a number without memory
  kQueryGrads,     // dq
  kKeyGrads,       // dk
  kValueGrads,     // dv
  kOutputGrads,    // dy
  kUnit,           // fp32, 1, without memory
  kGradSums,       // fp32, sums of dy * y by query; workspace
  kQueryGradSums,  // fp32, shaped as dq: workspace for its sums if they are added in any order
  kMasked,         // fp32, replaces scores that a query does not see; without memory
  kFirstUnnamed = 100,
};

// Filters and their gradients have x's element type.
void DescribeConvolution(const Convolution& shape, DType dtype, CudnnGraph* graph);
void DescribeInputGrad(const Convolution& shape, DType dtype, CudnnGraph* graph);
void DescribeFilterGrad(const Convolution& shape, DType dtype, CudnnGraph* graph);

// Return Unimplemented for shapes that no version of cuDNN computes, or computes correctly.
// NVIDIA's cudnn-frontend rejects the same shapes; cuDNN makes plans for some of them. Gradient
// support depends on the GPU's compute capability. A rejected shape must not be described.
absl::Status CheckAttention(const AttentionShape& shape);
absl::Status CheckAttentionGrad(const AttentionShape& shape, int capability_major);
void DescribeAttention(const AttentionShape& shape, CudnnGraph* graph);
void DescribeAttentionGrad(const AttentionShape& shape, int capability_major, CudnnGraph* graph);

// True if the gradient is better computed with atomic additions to dq, if those are allowed: when
// ds would take more than 256 MiB. Atomic additions do not need ds. cudnn-frontend uses the same
// threshold.
bool IsFasterNondeterministic(const AttentionShape& shape);

// Returns the number of samples whose gradient is computed at once: all, or as many as have scores
// within the workspace's limit. Parts are equal if the batch has such a divisor. The log_sums of
// each part are aligned to 16 bytes, for which up to 4 samples may exceed the limit.
int64_t SamplesAtOnce(const AttentionShape& shape);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_GRAPHS_H_
