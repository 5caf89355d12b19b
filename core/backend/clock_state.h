// How fast a device's clock runs, and what holds it back: what a measurement should say beside its
// times.
#ifndef DPIPE_CORE_BACKEND_CLOCK_STATE_H_
#define DPIPE_CORE_BACKEND_CLOCK_STATE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/cuda/nvml_api.h"
#include "core/tensor/device.h"

namespace dpipe {

// One line, now: "multiprocessors at 1980 of 1980 MHz, memory at 2619 of 2619 MHz, 41 C, 310 W"
// and, where something holds clocks back, "; slowed by power limit". For CPUs: "cores at 2300 MHz,
// governor performance", of all cores of the machine and of the first one's governor. What the
// system does not tell is left out; where it tells nothing, "clocks not told" and why.
std::string ClockState(Device& device);

namespace internal {
// The same for the GPU with that PCI bus id.
std::string GpuClockState(const NvmlApi& api, const std::string& pci_bus_id);
// From the text of /proc/cpuinfo and of a scaling_governor file, which may be empty.
std::string CpuClockState(absl::string_view cpuinfo, absl::string_view governor);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BACKEND_CLOCK_STATE_H_
