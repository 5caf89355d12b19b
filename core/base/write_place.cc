#include "core/base/write_place.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

// File systems that have no blocks (some of networks) do not say.
std::optional<int64_t> FreeBytes(const std::string& folder) {
  struct statvfs space;
  if (::statvfs(folder.c_str(), &space) != 0 || space.f_blocks == 0) return std::nullopt;
  // A part is root's alone.
  const auto blocks = ::geteuid() == 0 ? space.f_bfree : space.f_bavail;
  return static_cast<int64_t>(blocks) * static_cast<int64_t>(space.f_frsize);
}

}  // namespace

absl::StatusOr<WritePlace> FindWritePlace(const std::string& path) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error).lexically_normal().parent_path();
  while (folder != folder.root_path() && !fs::exists(fs::symlink_status(folder, error))) {
    folder = folder.parent_path();
  }
  if (!fs::is_directory(folder, error)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", path, ": ", folder.string(), " is no folder"));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot write ", path,
                                                      ": cannot write into the folder ",
                                                      folder.string(), ": ", std::strerror(errno)));
  }
  return WritePlace{folder.string(), FreeBytes(folder.string())};
}

}  // namespace dpipe
