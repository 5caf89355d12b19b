// Description of the machine on which a measurement was made.
#ifndef DPIPE_CORE_REPORT_MACHINE_H_
#define DPIPE_CORE_REPORT_MACHINE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/proto/results.pb.h"

namespace dpipe::report {

// Reads /proc and /etc/os-release; names no GPUs. Values that cannot be read keep their "unknown"
// defaults, because a report without the CPU's name is better than none.
MachineInfo CollectMachineInfo();

// Returns "AMD EPYC 9B14, 2 cores, 7.8 GiB", followed by ", NVIDIA H200, driver 570.86.15" if there
// are GPUs.
std::string DescribeMachine(const MachineInfo& machine);
// Returns "NVIDIA H200", or "2 x NVIDIA H100, NVIDIA A100" for several, in order of first
// appearance; "" if there is none.
std::string DescribeGpus(const MachineInfo& machine);

// Parse the text of /proc/cpuinfo. CpuModelOf returns the first "model name" (or "Model",
// "Hardware" on ARM), NumPhysicalCoresOf the number of distinct (physical id, core id) pairs; 0 if
// it lists none.
std::string CpuModelOf(absl::string_view cpuinfo);
int NumPhysicalCoresOf(absl::string_view cpuinfo);

// Returns MemTotal in bytes from the text of /proc/meminfo; 0 if absent.
int64_t MemoryBytesOf(absl::string_view meminfo);

// Returns PRETTY_NAME without quotes from the text of /etc/os-release; "" if absent.
std::string OperatingSystemOf(absl::string_view os_release);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_MACHINE_H_
