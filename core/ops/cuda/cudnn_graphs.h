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
  kBias,         // fp32
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
  kUnbiased,     // between operations
};

absl::Status DescribeConvolution(const Convolution& shape, DType dtype, bool with_bias,
                                 CudnnGraph* graph);
absl::Status DescribeInputGrad(const Convolution& shape, DType dtype, CudnnGraph* graph);
absl::Status DescribeFilterGrad(const Convolution& shape, DType dtype, CudnnGraph* graph);
absl::Status DescribeAttention(const UnmaskedAttention& shape, CudnnGraph* graph);
absl::Status DescribeAttentionGrad(const UnmaskedAttention& shape, CudnnGraph* graph);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_GRAPHS_H_
