#include "core/cost/roofline/device_spec.h"

#include <algorithm>
#include <cmath>

namespace dpipe::roofline {
namespace {

// Peaks: NVIDIA's data sheets, dense bf16, SXM boards: A100-80GB 312 TFLOP/s and 2,039 GB/s, H100
// 989.4 TFLOP/s and 3,350 GB/s, H200 989.4 TFLOP/s and 4,800 GB/s; a multiply-add is two FLOP.
//
// Efficiencies of large kernels are assumptions, the same for all three devices except for
// attention. They are typical of vendor libraries: 0.65 of the peak for convolutions, 0.7 for
// matrix products, 0.45 for attention with heads of 64, and 0.8 of the memory bandwidth.
//
// full_kernel_macs is an assumption too: 8e9 multiply-adds occupy an A100 for 51 us at its peak,
// 20e9 an H100 or H200 for 40 us.
//
// Calibration corrects the errors of these assumptions in total, not layer by layer: one factor per
// device reproduces the training throughput of a published run.
std::vector<DeviceSpec> MakeDevices() {
  DeviceSpec a100;
  a100.name = "a100_80gb";
  a100.description = "NVIDIA A100-SXM4-80GB";
  a100.peak_macs_per_s = 312e12 / 2;
  a100.memory_bytes_per_s = 2.039e12;
  a100.convolution_efficiency = 0.65;
  a100.matmul_efficiency = 0.7;
  a100.attention_efficiency = 0.45;
  a100.memory_efficiency = 0.8;
  a100.full_kernel_macs = 8e9;
  a100.kernel_ns = 4000;
  a100.calibration = 1.56;
  a100.host_bytes_per_s = 25e9;  // PCIe 4.0 x16: 32e9 nominal, assumed effective 0.78

  DeviceSpec h100 = a100;
  h100.name = "h100_sxm";
  h100.description = "NVIDIA H100-SXM5-80GB";
  h100.peak_macs_per_s = 989.4e12 / 2;
  h100.memory_bytes_per_s = 3.35e12;
  h100.full_kernel_macs = 20e9;
  h100.kernel_ns = 3000;
  h100.calibration = 1.348;
  h100.host_bytes_per_s = 50e9;  // PCIe 5.0 x16: 64e9 nominal, assumed effective 0.78

  DeviceSpec h200 = h100;
  h200.name = "h200_sxm";
  h200.description = "NVIDIA H200-SXM5-141GB";
  h200.memory_bytes_per_s = 4.8e12;
  h200.calibration = 1.449;
  return {a100, h100, h200};
}

double EfficiencyOf(const DeviceSpec& device, OpClass op_class) {
  switch (op_class) {
    case OpClass::kConvolution:
      return device.convolution_efficiency;
    case OpClass::kMatmul:
      return device.matmul_efficiency;
    case OpClass::kAttention:
      return device.attention_efficiency;
    case OpClass::kMemory:
      return 1;  // no multiply-adds
  }
  return 1;
}

}  // namespace

const std::vector<DeviceSpec>& Devices() {
  static const auto* const devices = new std::vector<DeviceSpec>(MakeDevices());
  return *devices;
}

const std::vector<CalibrationTarget>& CalibrationTargets() {
  static const auto* const targets = new std::vector<CalibrationTarget>{
      {"a100_80gb", 16, 36.3, "MosaicML, Stable Diffusion 2 base, 512 px, an A100"},
      {"h100_sxm", 64, 127.1, "MLPerf Training v4.0, Stable Diffusion, batch 64, an H100"},
      {"h200_sxm", 64, 128.9, "MLPerf Training v4.0, Stable Diffusion, batch 64, an H200"}};
  return *targets;
}

double PassNs(const DeviceSpec& device, OpClass op_class, const PassWork& work, int batch) {
  if (work.kernels == 0) return 0;
  const double macs = static_cast<double>(work.macs) * batch;
  // macs / efficiency(macs), with the square root's argument multiplied out.
  const double effective =
      std::sqrt(macs * (macs + device.full_kernel_macs)) / EfficiencyOf(device, op_class);
  const double bytes = static_cast<double>(work.bytes) * batch + work.fixed_bytes;
  const double seconds = std::max(effective / device.peak_macs_per_s,
                                  bytes / (device.memory_bytes_per_s * device.memory_efficiency));
  return seconds * device.calibration * kNanosPerSecond +
         static_cast<double>(work.kernels * device.kernel_ns);
}

}  // namespace dpipe::roofline
