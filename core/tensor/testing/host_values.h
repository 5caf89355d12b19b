// Reads a tensor's numbers in tests.
#ifndef DPIPE_CORE_TENSOR_TESTING_HOST_VALUES_H_
#define DPIPE_CORE_TENSOR_TESTING_HOST_VALUES_H_

#include <vector>

#include "core/tensor/tensor.h"

namespace dpipe {

// Returns the elements of an fp32 or bf16 tensor on any device.
inline std::vector<float> HostValues(const Tensor& t) {
  const Tensor host = t.ToHost().To(DType::kF32);
  return std::vector<float>(host.span<float>().begin(), host.span<float>().end());
}

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_TESTING_HOST_VALUES_H_
