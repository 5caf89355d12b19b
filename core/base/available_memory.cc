#include "core/base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/cgroup_memory.h"

namespace dpipe {

int64_t AvailableMemoryBytes() {
  std::ifstream file("/proc/meminfo");  // a file of the kernel's has no size to read up to
  std::ostringstream text;
  text << file.rdbuf();
  return internal::LeastAvailable(internal::ParseAvailableMemory(text.str()), CgroupRoomBytes());
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

// 0 is taken: it means that nothing is known.
int64_t LeastAvailable(int64_t system, std::optional<int64_t> groups) {
  if (!groups.has_value()) return system;
  const int64_t room = std::max<int64_t>(1, *groups);
  return system == 0 ? room : std::min(system, room);
}

}  // namespace internal
}  // namespace dpipe
