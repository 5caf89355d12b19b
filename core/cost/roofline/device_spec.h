// Devices as peaks and efficiencies, for the analytic roofline. One table, each number with its
// source.
#ifndef DPIPE_CORE_COST_ROOFLINE_DEVICE_SPEC_H_
#define DPIPE_CORE_COST_ROOFLINE_DEVICE_SPEC_H_

#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/cost/roofline/op_work.h"

namespace dpipe::roofline {

// Share of a peak that large kernels of each pass reach.
struct PassEfficiency {
  double forward = 0;
  double input_grad = 0;
  double weight_grad = 0;
};

struct DeviceSpec {
  std::string name;            // "a100_80gb"; also the folder of its profiles
  std::string description;     // used in ModelProfile.device
  double peak_macs_per_s = 0;  // dense bf16 multiply-adds
  double memory_bytes_per_s = 0;
  PassEfficiency convolution, matmul, attention;  // of the peak
  PassEfficiency memory;                          // of the bandwidth, for every class
  // A convolution of w multiply-adds reaches its efficiency divided by sqrt(1 + full / w): a small
  // one has too little parallel work for the whole device.
  double full_convolution_macs = 0;
  Nanos kernel_ns = 0;          // to start and end a kernel while the device is idle
  double host_bytes_per_s = 0;  // copies from the host
};

// a100_80gb, h100_sxm and h200_sxm.
const std::vector<DeviceSpec>& Devices();

// Returns the device of a GPU by its driver's name, "NVIDIA H200" or "NVIDIA H100 80GB HBM3"; null
// if it is none of them: boards with PCIe have other peaks, except the A100's.
const DeviceSpec* FindGpu(const std::string& name);

enum class Pass { kForward, kInputGrad, kWeightGrad };

// Returns the time of one pass of one operation on `batch` samples; 0 if there is no such pass. It
// is the larger of multiply-adds / (peak x efficiency) and bytes / (bandwidth x efficiency), plus
// kernel_ns per kernel. Attention kernels work on heads padded to a multiple of 64 channels.
double PassNs(const DeviceSpec& device, const OpWork& op, Pass pass, int batch);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_DEVICE_SPEC_H_
