// The machine a measurement was made on.
#ifndef DPIPE_CORE_REPORT_MACHINE_H_
#define DPIPE_CORE_REPORT_MACHINE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dpipe::report {

struct MachineInfo {
  std::string cpu_model;         // "AMD EPYC 9B14"; "unknown" where Linux does not say
  int num_logical_cores = 0;     // that this process may run on (its affinity mask)
  int num_physical_cores = 0;    // of the machine; 0 where not known
  int64_t memory_bytes = 0;      // of the machine, 0 where not known
  std::string kernel;            // "Linux 6.1.0-18-amd64"
  std::string operating_system;  // "Debian GNU/Linux 12 (bookworm)"
  std::string compiler;          // that built this program: "gcc 12.2.0"
};

// Reads /proc and /etc/os-release. What cannot be read stays at its "not known" value: a report
// without the CPU's name is better than none.
MachineInfo CollectMachineInfo();

// "AMD EPYC 9B14, 2 cores, 7.8 GiB".
std::string DescribeMachine(const MachineInfo& machine);

// From the text of /proc/cpuinfo: the first "model name" (or "Model", "Hardware" on ARM), and the
// number of distinct (physical id, core id) pairs, 0 where it lists none.
std::string CpuModelOf(absl::string_view cpuinfo);
int NumPhysicalCoresOf(absl::string_view cpuinfo);

// From the text of /proc/meminfo: MemTotal in bytes, or 0.
int64_t MemoryBytesOf(absl::string_view meminfo);

// From the text of /etc/os-release: PRETTY_NAME without quotes, or "".
std::string OperatingSystemOf(absl::string_view os_release);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_MACHINE_H_
