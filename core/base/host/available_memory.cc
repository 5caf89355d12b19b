#include "core/base/host/available_memory.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/bytes.h"
#include "core/base/files/file.h"
#include "core/base/host/cgroup_limits.h"
#include "core/base/host/out_of_memory.h"

namespace dpipe {

int64_t AvailableMemoryBytes() {
  const std::string text = ReadFile("/proc/meminfo").value_or("");
  return internal::MinAvailable(internal::ParseAvailableMemory(text), CgroupRoomBytes());
}

absl::Status CheckMemoryFor(absl::string_view what, double size_bytes) {
  const int64_t system = AvailableMemoryBytes();
  const int64_t room = AddressSpaceRoomBytes();
  const int64_t free = system == 0 ? room : std::min(system, room);
  if (size_bytes <= static_cast<double>(free)) return absl::OkStatus();
  const auto bytes = static_cast<int64_t>(std::min(size_bytes, 9e18));
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " need ", FormatBytes(bytes), " of memory, but only ", FormatBytes(free), " are free"));
}

namespace internal {

int64_t ParseAvailableMemory(absl::string_view meminfo) {
  for (absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    int64_t kilobytes = 0;
    if (!absl::ConsumePrefix(&line, "MemAvailable:") || !absl::ConsumeSuffix(&line, "kB")) continue;
    const bool is_number = absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &kilobytes);
    return is_number && kilobytes > 0 ? kilobytes * 1024 : 0;
  }
  return 0;
}

// Returns at least 1 if the groups have a limit, because 0 means unknown.
int64_t MinAvailable(int64_t system, std::optional<int64_t> groups) {
  if (!groups.has_value()) return system;
  const int64_t room = std::max<int64_t>(1, *groups);
  return system == 0 ? room : std::min(system, room);
}

}  // namespace internal
}  // namespace dpipe
