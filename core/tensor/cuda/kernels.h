// What copying and summing tensors needs of a GPU beyond the driver's own functions.
#ifndef DPIPE_CORE_TENSOR_CUDA_KERNELS_H_
#define DPIPE_CORE_TENSOR_CUDA_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/tensor/cuda/sum_table.h"
#include "core/tensor/dtype.h"

namespace dpipe::cuda {

// Enqueues fp32 to bf16 (to nearest even) or bf16 to fp32 of `count` elements in device memory.
cudaError_t Convert(void* to, DType to_dtype, const void* from, DType from_dtype, int64_t count,
                    cudaStream_t stream);

// Enqueues a wait of one thread; of at most a second.
cudaError_t Delay(int64_t duration_ns, cudaStream_t stream);

// Enqueues a table's sums, at least one.
cudaError_t AddUp(const SumTable& table, cudaStream_t stream);

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_KERNELS_H_
