// matmul.h's products by cuBLASLt.
#ifndef DPIPE_CORE_OPS_CUDA_CUBLAS_MATMUL_H_
#define DPIPE_CORE_OPS_CUDA_CUBLAS_MATMUL_H_

#include <memory>

#include "core/base/status.h"
#include "core/ops/cuda/matmul.h"

namespace dpipe::ops::cuda {

// NotFound where the library is missing; Unimplemented in builds without CUDA.
absl::Status MultiplyByCublas(const std::shared_ptr<Device>& device, const Product& product);

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUBLAS_MATMUL_H_
