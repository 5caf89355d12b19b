// Devices as peaks and efficiencies, for the analytic roofline. One table, each number with where
// it comes from.
#ifndef DPIPE_CORE_COST_ROOFLINE_DEVICE_SPEC_H_
#define DPIPE_CORE_COST_ROOFLINE_DEVICE_SPEC_H_

#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/cost/roofline/component_builder.h"

namespace dpipe::roofline {

struct DeviceSpec {
  std::string name;            // "a100_80gb"; also the folder of its profiles
  std::string description;     // of ModelProfile.device
  double peak_macs_per_s = 0;  // dense bf16 multiply-adds
  double memory_bytes_per_s = 0;
  // Shares of the peaks that large kernels reach.
  double convolution_efficiency = 0;
  double matmul_efficiency = 0;
  double attention_efficiency = 0;
  double memory_efficiency = 0;
  // A kernel of w multiply-adds reaches its class's efficiency divided by sqrt(1 + full / w): it
  // has too little parallel work for all of the device.
  double full_kernel_macs = 0;
  Nanos kernel_ns = 0;  // start and end of one kernel, the device otherwise idle
  // All kernel times are multiplied by it. Calibrated: see CalibrationTarget.
  double calibration = 1;
  double host_bytes_per_s = 0;  // copies from the host
};

// a100_80gb, h100_sxm and h200_sxm.
const std::vector<DeviceSpec>& Devices();

// A published throughput that `calibration` of a device was chosen to reproduce: U-Net of Stable
// Diffusion 2 alone, latents and text from a cache, 512 px.
struct CalibrationTarget {
  std::string device;
  int local_batch = 0;
  double images_per_s = 0;
  std::string source;
};
const std::vector<CalibrationTarget>& CalibrationTargets();

// Time of one pass of one operation on `batch` samples; 0 where there is no such pass. The larger
// of multiply-adds / (peak x efficiency) and bytes / (bandwidth x efficiency), times calibration,
// plus kernel_ns a kernel.
double PassNs(const DeviceSpec& device, OpClass op_class, const PassWork& work, int batch);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_DEVICE_SPEC_H_
