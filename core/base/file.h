// Whole files, and files that appear complete or not at all.
#ifndef DPIPE_CORE_BASE_FILE_H_
#define DPIPE_CORE_BASE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// The file's content. NotFound, or ResourceExhausted if it is larger than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = int64_t{1} << 32);

// Writes `path` by way of a temporary file beside it, flushed and renamed: a reader, or a crash,
// sees the old content or the new, never a part.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

// The same for content in several parts, one after another, which are not copied together first.
absl::Status WritePartsAtomically(const std::string& path,
                                  const std::vector<absl::string_view>& parts);

// A copy of the file `from` (or of what it links to) that appears complete or not at all, however
// large it is: the system copies, or on some file systems shares, the content without a way through
// this process's memory. NotFound where `from` cannot be opened.
absl::Status CopyFileAtomically(const std::string& from, const std::string& to);

// Makes the folder and its parents; fine if it is there.
absl::Status MakeFolder(const std::string& path);
// The folder that `path` lies in, likewise.
absl::Status MakeParentFolder(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILE_H_
