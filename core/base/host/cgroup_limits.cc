#include "core/base/host/cgroup_limits.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/files/file.h"

namespace dpipe {
namespace {

constexpr char kV2[] = "cgroup2";  // file system types
constexpr char kV1[] = "cgroup";

// A controller of one cgroup version.
struct Hierarchy {
  std::string file_system;
  std::string controller;  // "memory" or "cpu"
  bool is_v2() const { return file_system == kV2; }
};

std::string TextOf(const std::string& path) { return ReadFile(path).value_or(""); }

bool HasWord(absl::string_view list, absl::string_view word) {
  const std::vector<absl::string_view> words = absl::StrSplit(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Returns the process's group, from lines like "4:cpu,memory:/user.slice" (v1) and "0::/user.slice"
// (v2), or nullopt if there is no such line.
std::optional<std::string> GroupOf(const std::string& cgroup, const Hierarchy& hierarchy) {
  for (const absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const bool is_it = hierarchy.is_v2() ? fields[0] == "0" && fields[1].empty()
                                         : HasWord(fields[1], hierarchy.controller);
    if (is_it) return std::string(fields[2]);
  }
  return std::nullopt;
}

struct Mount {
  std::string group;   // the group that is mounted
  std::string folder;  // the mount point
};

// Parses lines like "34 25 0:29 /group /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup rw".
std::optional<Mount> MountOf(const std::string& mountinfo, const Hierarchy& hierarchy) {
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    const std::vector<std::string> halves = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (halves.size() != 2) continue;
    const std::vector<std::string> fields = absl::StrSplit(halves[0], ' ');
    const std::vector<std::string> source = absl::StrSplit(halves[1], ' ');
    if (fields.size() < 5 || source.size() < 3 || source[0] != hierarchy.file_system) continue;
    if (!hierarchy.is_v2() && !HasWord(source[2], hierarchy.controller)) continue;
    return Mount{fields[3], fields[4]};
  }
  return std::nullopt;
}

// Returns the group's path below the mount point, or "" if it is not there. A container's hierarchy
// may be mounted from the container's group down, while the process's own group is named from the
// host's root. It may also be named relative to another root ("/../..").
std::string PathBelow(const Mount& mount, const std::string& group) {
  std::string below = group;
  if (mount.group != "/") {
    const bool is_below =
        group == mount.group || absl::StartsWith(group, absl::StrCat(mount.group, "/"));
    below = is_below ? group.substr(mount.group.size()) : "";
  }
  return absl::StrContains(below, "..") || below == "/" ? "" : below;
}

// Returns nullopt for "max" and for numbers of more than 63 bits.
std::optional<int64_t> NumberOf(absl::string_view text) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &number)) return std::nullopt;
  return number;
}

std::optional<int64_t> NumberIn(const std::string& path) { return NumberOf(TextOf(path)); }

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

std::optional<int64_t> RoomOfGroup(const std::string& folder, bool is_v2) {
  const auto number = [&](const char* v2, const char* v1) {
    return NumberIn(absl::StrCat(folder, "/", is_v2 ? v2 : v1));
  };
  const std::optional<int64_t> limit = number("memory.max", "memory.limit_in_bytes");
  const std::optional<int64_t> usage = number("memory.current", "memory.usage_in_bytes");
  if (!limit.has_value() || !usage.has_value()) return std::nullopt;
  const int64_t reclaimable =
      std::min(*usage, StatIn(absl::StrCat(folder, "/memory.stat"),
                              is_v2 ? "inactive_file" : "total_inactive_file"));
  return std::max<int64_t>(0, *limit - (*usage - reclaimable));
}

// v2 has "150000 100000" (microseconds) or "max 100000". In v1, -1 means no quota.
std::optional<double> CpusOfGroup(const std::string& folder, bool is_v2) {
  std::optional<int64_t> quota, period;
  if (is_v2) {
    const std::string text = TextOf(absl::StrCat(folder, "/cpu.max"));
    const std::vector<absl::string_view> fields =
        absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
    if (fields.size() == 2) quota = NumberOf(fields[0]), period = NumberOf(fields[1]);
  } else {
    quota = NumberIn(absl::StrCat(folder, "/cpu.cfs_quota_us"));
    period = NumberIn(absl::StrCat(folder, "/cpu.cfs_period_us"));
  }
  if (quota.value_or(0) <= 0 || period.value_or(0) <= 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

template <typename T>
std::optional<T> Min(std::optional<T> a, std::optional<T> b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  return std::min(*a, *b);
}

// Returns the minimum of of_group(folder, is_v2) over the group and its parents.
template <typename T>
std::optional<T> MinInHierarchy(const std::string& root, const Hierarchy& hierarchy,
                                std::optional<T> (*of_group)(const std::string&, bool)) {
  const auto group = GroupOf(TextOf(root + "/proc/self/cgroup"), hierarchy);
  const auto mount = MountOf(TextOf(root + "/proc/self/mountinfo"), hierarchy);
  if (!group.has_value() || !mount.has_value()) return std::nullopt;
  std::optional<T> min;
  for (std::string below = PathBelow(*mount, *group);;) {
    const std::string folder = absl::StrCat(root, mount->folder, below);
    min = Min(min, of_group(folder, hierarchy.is_v2()));
    if (below.empty()) return min;
    below.erase(below.rfind('/'));
  }
}

}  // namespace

std::optional<int64_t> CgroupRoomBytes(const std::string& root) {
  return Min(MinInHierarchy(root, {kV2, "memory"}, RoomOfGroup),
             MinInHierarchy(root, {kV1, "memory"}, RoomOfGroup));
}

std::optional<double> CgroupCpus(const std::string& root) {
  return Min(MinInHierarchy(root, {kV2, "cpu"}, CpusOfGroup),
             MinInHierarchy(root, {kV1, "cpu"}, CpusOfGroup));
}

}  // namespace dpipe
