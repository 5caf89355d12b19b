// Which GPUs this process may use, and by which driver: what a measurement on them should say.
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
  std::vector<std::string> gpus;  // "NVIDIA H200", in the driver's order; empty where there is none
  std::string driver;             // "570.86.15"; empty where nothing tells it
};

// The same every time.
const GpuNames& ThisMachinesGpus();

namespace internal {
// `driver` finds the GPUs, `nvml` tells the version.
GpuNames NamesOfGpus(const std::function<absl::StatusOr<cuda::Driver*>()>& driver,
                     const std::function<absl::StatusOr<const NvmlApi*>()>& nvml);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BACKEND_GPU_NAMES_H_
