// matmul.h's products by cuBLASLt.
#ifndef DPIPE_CORE_OPS_CUDA_CUBLAS_MATMUL_H_
#define DPIPE_CORE_OPS_CUDA_CUBLAS_MATMUL_H_

#include <memory>

#include "core/base/status.h"
#include "core/ops/cuda/matmul.h"

namespace dpipe {
struct CublasLtApi;
}

namespace dpipe::ops::cuda {

// Returns NotFound if the library is missing, Unimplemented in builds without CUDA.
absl::Status MultiplyByCublas(const std::shared_ptr<Device>& device, const Product& product);

namespace internal {
// Uses the given library, which must always be the same for a device.
absl::Status MultiplyByCublas(const CublasLtApi& api, const std::shared_ptr<Device>& device,
                              const Product& product);
}  // namespace internal

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUBLAS_MATMUL_H_
