// What is recorded about devices with a measurement: their clocks and what slows them, the GPUs
// that this process may use, and their driver.
#ifndef DPIPE_CORE_BACKEND_DEVICE_REPORT_H_
#define DPIPE_CORE_BACKEND_DEVICE_REPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/cuda/nvml_api.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/device.h"

namespace dpipe {

// Returns the current state in one line. For a GPU: "multiprocessors at 1980 of 1980 MHz, memory at
// 2619 of 2619 MHz, 41 C, 310 W", followed by "; slowed by power limit" if something holds clocks
// back. For CPUs: "cores at 2300 MHz, governor performance", over all cores of the machine and with
// the first one's governor. Omits values that the system does not report; if there are none,
// returns "clocks not told" and the reason.
std::string ClockState(Device& device);

namespace internal {
// The same for the GPU with this PCI bus id.
std::string GpuClockState(const NvmlApi& api, const std::string& pci_bus_id);
// From the text of /proc/cpuinfo and of a scaling_governor file, which may be empty.
std::string CpuClockState(absl::string_view cpuinfo, absl::string_view governor);
}  // namespace internal

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

#endif  // DPIPE_CORE_BACKEND_DEVICE_REPORT_H_
