// The number of CPUs that a process can compute on.
#ifndef DPIPE_CORE_BASE_HOST_USABLE_CPUS_H_
#define DPIPE_CORE_BASE_HOST_USABLE_CPUS_H_

#include <optional>
#include <string>
#include <vector>

namespace dpipe {

// Returns the logical cores in the calling thread's affinity mask, in increasing order.
std::vector<int> AllowedCores();

struct UsableCpus {
  std::vector<int> cores;  // AllowedCores
  // The number of threads that can compute continuously, at least 1: the number of cores, or the
  // whole CPUs of the control groups' quota (a container's --cpus, a pod's limit) if that is
  // smaller. With more threads than the quota, some would be stopped within each period, and the
  // others would wait for them.
  int count = 1;
  std::optional<double> quota;  // nullopt: unlimited

  bool is_limited() const { return count < static_cast<int>(cores.size()); }
  // Returns "a CPU quota of 1.5 (cgroup) leaves 1 of 2 cores", or "" if the quota does not limit.
  std::string Note() const;
};

UsableCpus FindUsableCpus();

// Returns the maximum number of processes that one machine starts for a job. More would fill its
// memory without making progress.
int MaxLocalProcesses();

namespace internal {
UsableCpus UsableCpusOf(std::vector<int> cores, std::optional<double> quota);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_USABLE_CPUS_H_
