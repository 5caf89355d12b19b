// Limits that control groups (set by a container, a scheduler or systemd) place on this process.
// Reads cgroup v2 and v1 through /proc/self/cgroup and /proc/self/mountinfo. `root` is prepended to
// all paths, for tests.
#ifndef DPIPE_CORE_BASE_HOST_CGROUP_LIMITS_H_
#define DPIPE_CORE_BASE_HOST_CGROUP_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace dpipe {

// Returns the minimum of the memory limit minus the memory in use, over the process's own group and
// all its visible parents. File pages that the kernel reclaims first (inactive_file) count as free.
// Returns nullopt if no group has a limit.
std::optional<int64_t> CgroupRoomBytes(const std::string& root = "");

// Returns the minimum CPU quota over the same groups, in CPUs: 1.5 is one and a half. Returns
// nullopt if no group has a quota.
std::optional<double> CgroupCpus(const std::string& root = "");

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_CGROUP_LIMITS_H_
