#include "tools/training/share_of_peak.h"

#include "core/cost/roofline/device_spec.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe::tools {

double PeakMacsPerSecond(const std::vector<DeviceWorker*>& workers) {
  double peak = 0;
  for (DeviceWorker* worker : workers) {
    const auto* const device = dynamic_cast<cuda::CudaDevice*>(worker->device().get());
    if (device == nullptr) return 0;
    const roofline::DeviceSpec* const spec = roofline::FindGpu(device->gpu().name);
    if (spec == nullptr) return 0;
    peak +=
        spec->peak_macs_per_s * device->context().multiprocessors / device->gpu().multiprocessors;
  }
  return peak;
}

}  // namespace dpipe::tools
