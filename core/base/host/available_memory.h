// How much more memory a process may allocate.
#ifndef DPIPE_CORE_BASE_HOST_AVAILABLE_MEMORY_H_
#define DPIPE_CORE_BASE_HOST_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// Returns the bytes that the system can currently give without swapping, limited by the room in
// this process's control groups (for example a container's; see CgroupRoomBytes). Returns 0 if
// neither is known.
int64_t AvailableMemoryBytes();

// Returns ResourceExhausted if `what`, which takes `size_bytes`, needs more than
// AvailableMemoryBytes or than this process's address-space limit leaves: "16 images of ... need
// 3.0 GiB of memory, but only 1.2 GiB are free".
absl::Status CheckMemoryFor(absl::string_view what, double size_bytes);

namespace internal {
// Parses the text of /proc/meminfo. Returns 0 if MemAvailable is missing or not positive.
int64_t ParseAvailableMemory(absl::string_view meminfo);
// Returns the minimum of the system's bytes (0: unknown) and the control groups' (nullopt: no
// limit).
int64_t MinAvailable(int64_t system, std::optional<int64_t> groups);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_AVAILABLE_MEMORY_H_
