// How many processors a process can compute on.
#ifndef DPIPE_CORE_BASE_USABLE_CPUS_H_
#define DPIPE_CORE_BASE_USABLE_CPUS_H_

#include <optional>
#include <string>
#include <vector>

namespace dpipe {

// Logical cores that the calling thread may run on (its affinity mask), increasing.
std::vector<int> AllowedCores();

struct UsableCpus {
  std::vector<int> cores;  // AllowedCores
  // Threads that can compute all the time, at least 1: the number of cores, or the whole CPUs of
  // the control groups' quota (a container's --cpus, a pod's limit) if that is smaller. More
  // threads than the quota would be stopped in the middle of each period, and others would wait for
  // them.
  int count = 1;
  std::optional<double> quota;  // none: not limited

  bool is_limited() const { return count < static_cast<int>(cores.size()); }
  // "a CPU quota of 1.5 (cgroup) leaves 1 of 2 cores"; empty if it does not limit.
  std::string Note() const;
};

UsableCpus FindUsableCpus();

// Returns the maximum number of processes that one machine starts for a job: beyond it they would
// fill its memory and get nothing done.
int MaxLocalProcesses();

namespace internal {
UsableCpus UsableCpusOf(std::vector<int> cores, std::optional<double> quota);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_USABLE_CPUS_H_
