// Where something is to be written later: whether it can be, and how much room there is.
#ifndef DPIPE_CORE_BASE_WRITE_PLACE_H_
#define DPIPE_CORE_BASE_WRITE_PLACE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/status.h"

namespace dpipe {

struct WritePlace {
  std::string folder;  // that is there, and in which what is missing of the path will be made
  // Of its file system, for this user; quotas are not known. None where the system does not say.
  std::optional<int64_t> free_bytes;
  std::optional<int64_t> free_files = std::nullopt;  // how many more its file system takes
};

// For a file or folder `path`, which need not be there, nor the folders that it lies in. Nothing is
// written. FailedPrecondition where the nearest of those that are there is a file, or not this
// user's to write to.
absl::StatusOr<WritePlace> FindWritePlace(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_WRITE_PLACE_H_
