// Description of the machine on which a measurement was made.
#ifndef DPIPE_CORE_REPORT_MACHINE_H_
#define DPIPE_CORE_REPORT_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dpipe::report {

struct MachineInfo {
  std::string cpu_model;         // "AMD EPYC 9B14"; "unknown" if Linux does not say
  int num_logical_cores = 0;     // usable by this process: see UsableCpus
  int num_physical_cores = 0;    // of the machine; 0 if unknown
  int64_t memory_bytes = 0;      // of the machine; 0 if unknown
  std::string kernel;            // "Linux 6.1.0-18-amd64"
  std::string operating_system;  // "Debian GNU/Linux 12 (bookworm)"
  std::string compiler;          // compiler of this program: "gcc 12.2.0"
  // Set only for measurements on GPUs; CollectMachineInfo leaves them empty.
  std::vector<std::string> gpus;  // names of those that the program may use: "NVIDIA H200"
  std::string gpu_driver;         // its version: "570.86.15"; empty if unknown
};

// Reads /proc and /etc/os-release. Values that cannot be read keep their "unknown" defaults,
// because a report without the CPU's name is better than none.
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
