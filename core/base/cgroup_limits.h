// What the control groups of a process (a container's, a scheduler's, systemd's) let it take. Reads
// cgroup v2 and v1 by /proc/self/cgroup and /proc/self/mountinfo; `root` comes before all paths,
// for tests.
#ifndef DPIPE_CORE_BASE_CGROUP_LIMITS_H_
#define DPIPE_CORE_BASE_CGROUP_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace dpipe {

// Returns the minimum, over the process's own group and its parents as far as they can be seen, of
// the memory limit minus what is used. File pages that the kernel gives up first (inactive_file)
// count as free. None if no group has a limit.
std::optional<int64_t> CgroupRoomBytes(const std::string& root = "");

// Returns the minimum quota, over the same groups, of processor time per time: 1.5 is one and a
// half CPUs. None if no group has a quota.
std::optional<double> CgroupCpus(const std::string& root = "");

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_CGROUP_LIMITS_H_
