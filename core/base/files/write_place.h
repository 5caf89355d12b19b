// Checks, before a file is written, that its folder is writable and how much room there is.
#ifndef DPIPE_CORE_BASE_FILES_WRITE_PLACE_H_
#define DPIPE_CORE_BASE_FILES_WRITE_PLACE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/status.h"

namespace dpipe {

struct WritePlace {
  std::string folder;  // the nearest existing folder; missing ones will be made in it
  // Free space in its file system for this user, ignoring quotas. Nullopt if the system does not
  // report it.
  std::optional<int64_t> free_bytes;
  std::optional<int64_t> free_files = std::nullopt;  // files that the file system can still create
};

// Finds the place for a file or folder `path`; neither it nor its parents need to exist. Writes
// nothing. Returns FailedPrecondition if the nearest existing parent is a file, or not writable for
// this user.
absl::StatusOr<WritePlace> FindWritePlace(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_WRITE_PLACE_H_
