#include "core/base/files/replace_folder.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

absl::Status RenameError(const std::string& from, const std::string& to, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot rename ", from, " to ", to, ": ", why));
}

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? RenameError(from, to, error.message()) : absl::OkStatus();
}

// Removes the old folder's files under their current name. Left-overs do not harm the new folder.
absl::Status Remove(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot remove ", folder, ": ", error.message()));
}

}  // namespace

absl::Status ReplaceFolder(const std::string& staged, const std::string& target) {
  std::error_code error;
  if (!fs::is_directory(staged, error)) {
    return absl::NotFoundError(absl::StrCat("there is no folder ", staged));
  }
  if (!fs::exists(target, error)) return Rename(staged, target);
  if (renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return Remove(staged);
  }
  if (errno != EINVAL && errno != ENOSYS) return RenameError(staged, target, std::strerror(errno));
  const std::string old = target + ".old";
  DPIPE_RETURN_IF_ERROR(Remove(old));
  DPIPE_RETURN_IF_ERROR(Rename(target, old));
  const absl::Status renamed = Rename(staged, target);
  if (!renamed.ok()) {
    (void)Rename(old, target);
    return renamed;
  }
  return Remove(old);
}

}  // namespace dpipe
