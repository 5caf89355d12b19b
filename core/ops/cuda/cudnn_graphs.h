// The graphs that cudnn_ops.h runs: what they consist of, without running them.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_GRAPHS_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_GRAPHS_H_

#include "core/base/status.h"
#include "core/ops/cuda/cudnn_graph.h"
#include "core/ops/cuda/cudnn_ops.h"

namespace dpipe::ops::cuda {

// Ids of the tensors, by which a plan is given their memory.
enum CudnnId : int64_t {
  kImage = 1,      // x, dx
  kFilters,        // w, dw
  kOutput,         // y, dy
  kQueries,        // q
  kKeys,           // k
  kValues,         // v
  kAttended,       // y
  kLogSums,        // fp32
  kScale,          // fp32, a number and no memory
  kQueryGrads,     // dq
  kKeyGrads,       // dk
  kValueGrads,     // dv
  kOutputGrads,    // dy
  kUnit,           // fp32, 1, and no memory
  kGradSums,       // fp32, sums of dy * y by query; room for them
  kQueryGradSums,  // fp32 as dq; room for its sums, where they are added up in any order
  kMasked,         // fp32, in place of scores that a query does not see, and no memory
  kFirstUnnamed = 100,
};

// Filters and their gradients are in x's element type.
void DescribeConvolution(const Convolution& shape, DType dtype, CudnnGraph* graph);
void DescribeInputGrad(const Convolution& shape, DType dtype, CudnnGraph* graph);
void DescribeFilterGrad(const Convolution& shape, DType dtype, CudnnGraph* graph);

// Unimplemented for shapes that cuDNN, whatever its version, does not compute or not rightly, which
// includes some that it makes plans for: those that NVIDIA's cudnn-frontend refuses. The gradient's
// depend on the GPU's compute capability. Such a shape must not be described.
absl::Status CheckAttention(const AttentionShape& shape);
absl::Status CheckAttentionGrad(const AttentionShape& shape, int capability_major);
void DescribeAttention(const AttentionShape& shape, CudnnGraph* graph);
void DescribeAttentionGrad(const AttentionShape& shape, int capability_major, CudnnGraph* graph);

// Whether the gradient had better be computed with dq added up atomically, where that may be: where
// ds would take more than 256 MiB, which it then does not take. cudnn-frontend draws the line
// there.
bool IsFasterInAnyOrder(const AttentionShape& shape);

// Of how many samples the gradient is computed at once: all, or else as many as their scores fit
// the workspace's limit, in equal parts where the batch has such a divisor, and with log_sums of
// each part aligned to 16 bytes (for which up to 4 samples may exceed the limit).
int64_t SamplesAtOnce(const AttentionShape& shape);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_GRAPHS_H_
