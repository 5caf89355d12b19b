#include "core/base/host/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/host/cgroup_limits.h"

namespace dpipe {

std::vector<int> AllowedCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cores.push_back(i);
  }
  return cores;
}

std::string UsableCpus::Note() const {
  if (!is_limited()) return "";
  return absl::StrFormat("a CPU quota of %g (cgroup) leaves %d of %d cores", quota.value_or(0),
                         count, cores.size());
}

UsableCpus FindUsableCpus() { return internal::UsableCpusOf(AllowedCores(), CgroupCpus()); }

int MaxLocalProcesses() {
  // GPU processes mostly wait, and tests run several processes per core.
  constexpr int kPerCore = 8, kAlways = 16;
  return std::max(kAlways, kPerCore * FindUsableCpus().count);
}

namespace internal {

UsableCpus UsableCpusOf(std::vector<int> cores, std::optional<double> quota) {
  // Schedulers write 1.9999 for 2.
  constexpr double kRounding = 1e-3;
  UsableCpus usable;
  usable.count = std::max(1, static_cast<int>(cores.size()));
  if (quota.has_value() && *quota + kRounding < usable.count) {
    usable.count = std::max(1, static_cast<int>(std::floor(*quota + kRounding)));
  }
  usable.cores = std::move(cores);
  usable.quota = quota;
  return usable;
}

}  // namespace internal
}  // namespace dpipe
