#include "core/backend/gpu_names.h"

#include "core/tensor/cuda/system_driver.h"

namespace dpipe {
namespace internal {

GpuNames NamesOfGpus(const std::function<absl::StatusOr<cuda::Driver*>()>& driver,
                     const std::function<absl::StatusOr<const NvmlApi*>()>& nvml) {
  GpuNames names;
  const auto found = driver();
  if (!found.ok()) return names;
  const auto gpus = (*found)->Gpus();
  if (!gpus.ok()) return names;
  for (const cuda::Gpu& gpu : *gpus) names.gpus.push_back(gpu.name);
  const auto api = nvml();
  char version[96] = {};  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE is 80
  if (api.ok() && (*api)->DriverVersion(version, sizeof(version) - 1) == 0) names.driver = version;
  return names;
}

}  // namespace internal

const GpuNames& ThisMachinesGpus() {
  static const auto* const kNames =
      new GpuNames(internal::NamesOfGpus(cuda::SystemDriver, LoadNvml));
  return *kNames;
}

}  // namespace dpipe
