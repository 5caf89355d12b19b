// Kernels for copying and summing tensors, beyond the driver's own functions.
#ifndef DPIPE_CORE_TENSOR_CUDA_KERNELS_H_
#define DPIPE_CORE_TENSOR_CUDA_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/tensor/cuda/sum_table.h"
#include "core/tensor/dtype.h"

namespace dpipe::cuda {

// Enqueues the conversion of `count` elements in device memory, from fp32 to bf16 (rounded to
// nearest even) or from bf16 to fp32.
cudaError_t Convert(void* to, DType to_dtype, const void* from, DType from_dtype, int64_t count,
                    cudaStream_t stream);

// Enqueues a wait by one thread, of at most one second.
cudaError_t Delay(int64_t duration_ns, cudaStream_t stream);

// Enqueues the sums of a table, which must have at least one.
cudaError_t AddUp(const SumTable& table, cudaStream_t stream);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_KERNELS_H_
