// The GPUs that this process may use, and their driver, to be recorded with a measurement.
#ifndef DPIPE_CORE_BACKEND_GPU_NAMES_H_
#define DPIPE_CORE_BACKEND_GPU_NAMES_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/cuda/nvml_api.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe {

struct GpuNames {
  std::vector<std::string> gpus;  // "NVIDIA H200", in the driver's order; empty if there is none
  std::string driver;             // "570.86.15"; empty if unknown
};

// Returns the same names on every call.
const GpuNames& ThisMachinesGpus();

namespace internal {
// `driver` finds the GPUs; `nvml` reports the driver's version.
GpuNames NamesOfGpus(const std::function<absl::StatusOr<cuda::Driver*>()>& driver,
                     const std::function<absl::StatusOr<const NvmlApi*>()>& nvml);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BACKEND_GPU_NAMES_H_
