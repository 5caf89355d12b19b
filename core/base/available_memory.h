// How much memory a process may still take.
#ifndef DPIPE_CORE_BASE_AVAILABLE_MEMORY_H_
#define DPIPE_CORE_BASE_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// What the system can give without swapping, in bytes, as it is now, and not more than the limits
// of this process's control groups (a container's, say) leave: see CgroupRoomBytes. 0 where neither
// is known.
int64_t AvailableMemoryBytes();

// ResourceExhausted if `what`, which takes `size_bytes`, needs more than AvailableMemoryBytes, or
// more than the limit on this process's address space leaves: "16 images of ... need 3.0 GiB of
// memory, and 1.2 GiB are free".
absl::Status CheckMemoryFor(absl::string_view what, double size_bytes);

namespace internal {
// From the text of /proc/meminfo.
int64_t ParseAvailableMemory(absl::string_view meminfo);
// The lesser of what the system (0: not known) and the control groups (none: no limit) give.
int64_t LeastAvailable(int64_t system, std::optional<int64_t> groups);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_AVAILABLE_MEMORY_H_
