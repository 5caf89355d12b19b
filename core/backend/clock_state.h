// The speed of a device's clocks and what slows them, to be recorded with a measurement's times.
#ifndef DPIPE_CORE_BACKEND_CLOCK_STATE_H_
#define DPIPE_CORE_BACKEND_CLOCK_STATE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/cuda/nvml_api.h"
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

}  // namespace dpipe

#endif  // DPIPE_CORE_BACKEND_CLOCK_STATE_H_
