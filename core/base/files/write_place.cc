#include "core/base/files/write_place.h"

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

// Some network file systems do not count blocks, and some that create inodes on demand do not count
// files. Root may also use the reserved part.
WritePlace PlaceIn(const std::string& folder) {
  WritePlace place;
  place.folder = folder;
  struct statvfs space;
  if (::statvfs(folder.c_str(), &space) != 0) return place;
  const bool is_root = ::geteuid() == 0;
  if (space.f_blocks != 0) {
    const auto blocks = is_root ? space.f_bfree : space.f_bavail;
    place.free_bytes = static_cast<int64_t>(blocks) * static_cast<int64_t>(space.f_frsize);
  }
  if (space.f_files != 0) {
    place.free_files = static_cast<int64_t>(is_root ? space.f_ffree : space.f_favail);
  }
  return place;
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
        absl::StrCat("cannot write ", path, ": ", folder.string(), " is not a folder"));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot write ", path,
                                                      ": cannot write into the folder ",
                                                      folder.string(), ": ", std::strerror(errno)));
  }
  return PlaceIn(folder.string());
}

}  // namespace dpipe
