// How much memory a process may still take.
#ifndef DPIPE_CORE_BASE_AVAILABLE_MEMORY_H_
#define DPIPE_CORE_BASE_AVAILABLE_MEMORY_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dpipe {

// What the system can give without swapping, in bytes, as it is now; 0 where it does not say. A
// limit on this process alone (a container's) is not looked at.
int64_t AvailableMemoryBytes();

namespace internal {
// From the text of /proc/meminfo.
int64_t ParseAvailableMemory(absl::string_view meminfo);
}  // namespace internal

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_AVAILABLE_MEMORY_H_
