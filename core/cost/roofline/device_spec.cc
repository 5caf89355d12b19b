#include "core/cost/roofline/device_spec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "core/base/check.h"

namespace dpipe::roofline {
namespace {

// Peaks: NVIDIA's data sheets, dense bf16, SXM boards: A100-80GB 312 TFLOP/s and 2,039 GB/s, H100
// 989.4 TFLOP/s and 3,350 GB/s, H200 989.4 TFLOP/s and 4,800 GB/s; a multiply-add is two FLOP.
//
// Efficiencies and kernel_ns are calibrated per class and pass to the layers of three models that
// this project measured on one H200 (data/profiles/h200: Stable Diffusion v2.1 and v1.5 and
// ControlNet, VAE and U-Net, batches 1 to 64): least squares of the relative error, each layer
// weighted by its share of its component's pass, with efficiencies of at most 0.85, 0.8, 0.7 and
// 0.92. //tests:modelled_error_test states the remaining error. For the A100 and the H100, which
// were not measured, the same shares of their own peaks are an assumption.
//
// full_convolution_macs, calibrated with them: 20e9 multiply-adds occupy an H200 for 40 us at its
// peak; 8e9 an A100 for 51 us, an assumption.
std::vector<DeviceSpec> MakeDevices() {
  DeviceSpec a100;
  a100.name = "a100_80gb";
  a100.description = "NVIDIA A100-SXM4-80GB";
  a100.peak_macs_per_s = 312e12 / 2;
  a100.memory_bytes_per_s = 2.039e12;
  a100.convolution = {0.85, 0.85, 0.61};
  a100.matmul = {0.8, 0.75, 0.47};
  a100.attention = {0.48, 0.28, 0.28};
  a100.memory = {0.69, 0.92, 0.92};
  a100.full_convolution_macs = 8e9;
  a100.kernel_ns = 9000;
  a100.host_bytes_per_s = 25e9;  // PCIe 4.0 x16: 32e9 nominal, assumed effective 0.78

  DeviceSpec h100 = a100;
  h100.name = "h100_sxm";
  h100.description = "NVIDIA H100-SXM5-80GB";
  h100.peak_macs_per_s = 989.4e12 / 2;
  h100.memory_bytes_per_s = 3.35e12;
  h100.full_convolution_macs = 20e9;
  h100.host_bytes_per_s = 50e9;  // PCIe 5.0 x16: 64e9 nominal, assumed effective 0.78

  DeviceSpec h200 = h100;
  h200.name = "h200_sxm";
  h200.description = "NVIDIA H200-SXM5-141GB";
  h200.memory_bytes_per_s = 4.8e12;
  return {a100, h100, h200};
}

// What the driver's names of a device's GPUs begin with, by the device's name.
constexpr std::pair<const char*, const char*> kGpuNames[] = {{"a100_80gb", "NVIDIA A100"},
                                                             {"h100_sxm", "NVIDIA H100 80GB HBM3"},
                                                             {"h200_sxm", "NVIDIA H200"}};

double Of(const PassEfficiency& efficiency, Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return efficiency.forward;
    case Pass::kInputGrad:
      return efficiency.input_grad;
    case Pass::kWeightGrad:
      return efficiency.weight_grad;
  }
  return 1;
}

const PassWork& WorkOf(const OpWork& op, Pass pass) {
  return pass == Pass::kForward     ? op.forward
         : pass == Pass::kInputGrad ? op.input_grad
                                    : op.weight_grad;
}

// Seconds that `macs` multiply-adds of an operation take.
double ArithmeticSeconds(const DeviceSpec& device, const OpWork& op, Pass pass, double macs) {
  switch (op.op_class) {
    case OpClass::kConvolution:
      // macs / efficiency(macs), with the square root's argument multiplied out.
      return std::sqrt(macs * (macs + device.full_convolution_macs)) /
             (device.peak_macs_per_s * Of(device.convolution, pass));
    case OpClass::kMatmul:
      return macs / (device.peak_macs_per_s * Of(device.matmul, pass));
    case OpClass::kAttention: {
      constexpr int64_t kPadding = 64;
      const double padded = (op.head_size + kPadding - 1) / kPadding * kPadding;
      return macs * padded / static_cast<double>(op.head_size) /
             (device.peak_macs_per_s * Of(device.attention, pass));
    }
    case OpClass::kMemory:
      return 0;
  }
  DPIPE_CHECK(false);
  return 0;
}

}  // namespace

const std::vector<DeviceSpec>& Devices() {
  static const auto* const devices = new std::vector<DeviceSpec>(MakeDevices());
  return *devices;
}

const DeviceSpec* FindGpu(const std::string& name) {
  if (absl::StartsWith(name, "NVIDIA H200 NVL")) return nullptr;
  for (const auto& [device, prefix] : kGpuNames) {
    if (!absl::StartsWith(name, prefix)) continue;
    for (const DeviceSpec& spec : Devices()) {
      if (spec.name == device) return &spec;
    }
  }
  return nullptr;
}

double PassNs(const DeviceSpec& device, const OpWork& op, Pass pass, int batch) {
  const PassWork& work = WorkOf(op, pass);
  if (work.kernels == 0) return 0;
  const double macs = static_cast<double>(work.macs) * batch;
  const double bytes = static_cast<double>(work.bytes) * batch + work.fixed_bytes;
  const double seconds = std::max(ArithmeticSeconds(device, op, pass, macs),
                                  bytes / (device.memory_bytes_per_s * Of(device.memory, pass)));
  return seconds * kNanosPerSecond + static_cast<double>(work.kernels * device.kernel_ns);
}

}  // namespace dpipe::roofline
