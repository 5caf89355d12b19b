// Whole files, and files that appear complete or not at all.
#ifndef DPIPE_CORE_BASE_FILE_H_
#define DPIPE_CORE_BASE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// What a text that people or programs write may have: configs, profiles, indices. Readers of what
// grows with a run or a data set say their own limit.
constexpr int64_t kMaxTextBytes = int64_t{256} << 20;

// Returns the content of a regular file. NotFound; InvalidArgument if it is a folder or a special
// file (see OpenRegularFile), or larger than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxTextBytes);

// The same, also for a pipe, which is read to its end: for files that a person names on a command
// line (`--config=/dev/stdin`, `--cluster=<(...)`). Returns only when the pipe's writer has closed
// it, or when more than `max_bytes` have come.
absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path,
                                           int64_t max_bytes = kMaxTextBytes);

// kLater: the caller flushes many files at once (syncfs).
enum class Flush { kNow, kLater };

// Writes `path` by way of a temporary file beside it (see CreateTemporaryFile), flushed and
// renamed: a reader, or a crash, sees the old content or the new, never a part. A link of this name
// is replaced, not followed. FileError.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content,
                                 Flush flush = Flush::kNow);

// The same for content in several parts, one after another, which are not copied together first.
absl::Status WritePartsAtomically(const std::string& path,
                                  const std::vector<absl::string_view>& parts);

// A copy of the file `from` (or of what it links to) that appears complete or not at all, however
// large it is: the system copies, or on some file systems shares, the content without a way through
// this process's memory. NotFound if `from` cannot be opened; InvalidArgument if it is no regular
// file.
absl::Status CopyFileAtomically(const std::string& from, const std::string& to);

// Makes the folder and its parents; fine if it is there. FileError.
absl::Status MakeFolder(const std::string& path);
// The folder that `path` lies in, likewise.
absl::Status MakeParentFolder(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILE_H_
