// Peaks and efficiencies of devices, for the analytic roofline. A single table, with the source of
// each number.
#ifndef DPIPE_CORE_COST_ROOFLINE_DEVICE_SPEC_H_
#define DPIPE_CORE_COST_ROOFLINE_DEVICE_SPEC_H_

#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/cost/roofline/component_builder.h"

namespace dpipe::roofline {

struct DeviceSpec {
  std::string name;            // "a100_80gb"; also the folder of its profiles
  std::string description;     // used in ModelProfile.device
  double peak_macs_per_s = 0;  // dense bf16 multiply-adds
  double memory_bytes_per_s = 0;
  // Shares of the peaks that large kernels reach.
  double convolution_efficiency = 0;
  double matmul_efficiency = 0;
  double attention_efficiency = 0;
  double memory_efficiency = 0;
  // A kernel of w multiply-adds reaches its class's efficiency divided by sqrt(1 + full / w),
  // because a small one has too little parallel work for the whole device.
  double full_kernel_macs = 0;
  Nanos kernel_ns = 0;  // start and end of one kernel on an otherwise idle device
  // Factor on all kernel times; see CalibrationTarget.
  double calibration = 1;
  double host_bytes_per_s = 0;  // copies from the host
};

// a100_80gb, h100_sxm and h200_sxm.
const std::vector<DeviceSpec>& Devices();

// A published throughput that the `calibration` of a device reproduces: training the U-Net of
// Stable Diffusion 2 alone, with cached latents and text, at 512 px.
struct CalibrationTarget {
  std::string device;
  int local_batch = 0;
  double images_per_s = 0;
  std::string source;
};
const std::vector<CalibrationTarget>& CalibrationTargets();

// Time of one pass of one operation on `batch` samples; 0 if there is no such pass. It is the
// maximum of multiply-adds / (peak x efficiency) and bytes / (bandwidth x efficiency), times
// calibration, plus kernel_ns per kernel.
double PassNs(const DeviceSpec& device, OpClass op_class, const PassWork& work, int batch);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_DEVICE_SPEC_H_
