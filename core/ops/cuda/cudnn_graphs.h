// The graphs that cudnn_ops.h runs: what they consist of, without running them.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_GRAPHS_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_GRAPHS_H_

#include "core/base/status.h"
#include "core/ops/cuda/cudnn_graph.h"
#include "core/ops/cuda/cudnn_ops.h"

namespace dpipe::ops::cuda {

// Ids of the tensors, by which a plan is given their memory.
enum CudnnId : int64_t {
  kImage = 1,    // x, dx
  kFilters,      // w, dw
  kOutput,       // y, dy
  kQueries,      // q
  kKeys,         // k
  kValues,       // v
  kAttended,     // y
  kLogSums,      // fp32
  kScale,        // fp32, a number and no memory
  kQueryGrads,   // dq
  kKeyGrads,     // dk
  kValueGrads,   // dv
  kOutputGrads,  // dy
  kUnit,         // fp32, 1, and no memory
  kGradSums,     // fp32, sums of dy * y by query; room for them
  kFirstUnnamed = 100,
};

// Filters and their gradients are in x's element type.
void DescribeConvolution(const Convolution& shape, DType dtype, CudnnGraph* graph);
void DescribeInputGrad(const Convolution& shape, DType dtype, CudnnGraph* graph);
void DescribeFilterGrad(const Convolution& shape, DType dtype, CudnnGraph* graph);
void DescribeAttention(const UnmaskedAttention& shape, CudnnGraph* graph);
void DescribeAttentionGrad(const UnmaskedAttention& shape, CudnnGraph* graph);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_GRAPHS_H_
