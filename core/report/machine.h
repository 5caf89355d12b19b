// The machine a measurement was made on.
#ifndef DPIPE_CORE_REPORT_MACHINE_H_
#define DPIPE_CORE_REPORT_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dpipe::report {

struct MachineInfo {
  std::string cpu_model;         // "AMD EPYC 9B14"; "unknown" where Linux does not say
  int num_logical_cores = 0;     // that this process can use: see UsableCpus
  int num_physical_cores = 0;    // of the machine; 0 where not known
  int64_t memory_bytes = 0;      // of the machine, 0 where not known
  std::string kernel;            // "Linux 6.1.0-18-amd64"
  std::string operating_system;  // "Debian GNU/Linux 12 (bookworm)"
  std::string compiler;          // that built this program: "gcc 12.2.0"
  // Of what was measured on GPUs alone; CollectMachineInfo knows none.
  std::vector<std::string> gpus;  // names of those that the program might use: "NVIDIA H200"
  std::string gpu_driver;         // its version: "570.86.15"; empty where not known
};

// Reads /proc and /etc/os-release. What cannot be read stays at its "not known" value: a report
// without the CPU's name is better than none.
MachineInfo CollectMachineInfo();

// "AMD EPYC 9B14, 2 cores, 7.8 GiB", and, where there are GPUs, ", NVIDIA H200, driver 570.86.15".
std::string DescribeMachine(const MachineInfo& machine);
// "NVIDIA H200"; "2 x NVIDIA H100, NVIDIA A100" of several, in the order in which they are named;
// "" where there is none.
std::string DescribeGpus(const MachineInfo& machine);

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
