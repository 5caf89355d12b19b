#include "core/base/cgroup_memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace dpipe {
namespace {

// The names that a version of cgroups has for the same things.
struct Version {
  const char* file_system;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // a line of memory.stat
};
constexpr Version kV2 = {"cgroup2", "memory.max", "memory.current", "inactive_file"};
constexpr Version kV1 = {"cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file"};

std::string TextOf(const std::string& path) {
  std::ifstream file(path);  // a file of the kernel's has no size to read up to
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool HasWord(absl::string_view list, absl::string_view word) {
  const std::vector<absl::string_view> words = absl::StrSplit(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The group that limits memory, from lines "4:cpu,memory:/user.slice" (v1) and "0::/user.slice"
// (v2); none where there is no such line.
std::optional<std::string> GroupOf(const std::string& cgroup, const Version& version) {
  for (const absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const bool is_it =
        &version == &kV2 ? fields[0] == "0" && fields[1].empty() : HasWord(fields[1], "memory");
    if (is_it) return std::string(fields[2]);
  }
  return std::nullopt;
}

struct Mount {
  std::string group;   // what of the hierarchy is mounted
  std::string folder;  // where
};

// From lines "34 25 0:29 /group /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup rw".
std::optional<Mount> MountOf(const std::string& mountinfo, const Version& version) {
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    const std::vector<std::string> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<std::string> fields = absl::StrSplit(halves[0], ' ');
    const std::vector<std::string> source = absl::StrSplit(halves[1], ' ');
    if (fields.size() < 5 || source.size() < 3 || source[0] != version.file_system) continue;
    if (&version == &kV1 && !HasWord(source[2], "memory")) continue;
    return Mount{fields[3], fields[4]};
  }
  return std::nullopt;
}

// Below the mount. In a container the hierarchy may be mounted from the container's group on, while
// the process's own is named from the host's root; or it is named from elsewhere ("/../..").
std::string PathBelow(const Mount& mount, const std::string& group) {
  std::string below = group;
  if (mount.group != "/") {
    const bool is_below =
        group == mount.group || absl::StartsWith(group, absl::StrCat(mount.group, "/"));
    below = is_below ? group.substr(mount.group.size()) : "";
  }
  return absl::StrContains(below, "..") || below == "/" ? "" : below;
}

std::optional<int64_t> NumberIn(const std::string& path) {
  int64_t number = 0;  // "max", and what is beyond 63 bits, is no limit
  const std::string text = TextOf(path);
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &number)) return std::nullopt;
  return number;
}

int64_t StatIn(const std::string& path, absl::string_view name) {
  const std::string text = TextOf(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    int64_t number = 0;
    if (fields.size() == 2 && fields[0] == name && absl::SimpleAtoi(fields[1], &number)) {
      return number;
    }
  }
  return 0;
}

std::optional<int64_t> RoomOfGroup(const std::string& folder, const Version& version) {
  const std::optional<int64_t> limit = NumberIn(absl::StrCat(folder, "/", version.limit));
  const std::optional<int64_t> usage = NumberIn(absl::StrCat(folder, "/", version.usage));
  if (!limit.has_value() || !usage.has_value()) return std::nullopt;
  const int64_t reclaimable =
      std::min(*usage, StatIn(absl::StrCat(folder, "/memory.stat"), version.reclaimable));
  return std::max<int64_t>(0, *limit - (*usage - reclaimable));
}

std::optional<int64_t> Least(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  return std::min(*a, *b);
}

std::optional<int64_t> RoomBy(const std::string& root, const Version& version) {
  const auto group = GroupOf(TextOf(root + "/proc/self/cgroup"), version);
  const auto mount = MountOf(TextOf(root + "/proc/self/mountinfo"), version);
  if (!group.has_value() || !mount.has_value()) return std::nullopt;
  std::optional<int64_t> room;
  for (std::string below = PathBelow(*mount, *group);;) {
    room = Least(room, RoomOfGroup(absl::StrCat(root, mount->folder, below), version));
    if (below.empty()) return room;
    below.erase(below.rfind('/'));
  }
}

}  // namespace

std::optional<int64_t> CgroupRoomBytes(const std::string& root) {
  return Least(RoomBy(root, kV2), RoomBy(root, kV1));
}

}  // namespace dpipe
