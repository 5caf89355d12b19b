// How much more memory the control groups of a process (a container's, a scheduler's, systemd's)
// let it take.
#ifndef DPIPE_CORE_BASE_CGROUP_MEMORY_H_
#define DPIPE_CORE_BASE_CGROUP_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

namespace dpipe {

// The least, over the process's own group and its parents as far as they can be seen, of the limit
// minus what is used, where file pages that the kernel gives up first (inactive_file) count as
// free. None where no group has a limit. Reads cgroup v2 and v1 by /proc/self/cgroup and
// /proc/self/mountinfo; `root` comes before all paths, for tests.
std::optional<int64_t> CgroupRoomBytes(const std::string& root = "");

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_CGROUP_MEMORY_H_
