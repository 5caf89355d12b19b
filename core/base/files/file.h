// Reading whole files, and writing files that appear complete or not at all.
#ifndef DPIPE_CORE_BASE_FILES_FILE_H_
#define DPIPE_CORE_BASE_FILES_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// Maximum size of text files that people or programs write: configs, profiles, indices. Readers of
// files that grow with a run or a data set pass their own limit.
constexpr int64_t kMaxTextBytes = int64_t{256} << 20;

// Returns the content of a regular file. Returns NotFound if it cannot be opened, and
// InvalidArgument if it is a folder or a special file (see OpenRegularFile) or larger than
// `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxTextBytes);

// The same, but also reads a pipe to its end. For files named on a command line
// (`--config=/dev/stdin`, `--cluster=<(...)`). Blocks until the pipe's writer has closed it or more
// than `max_bytes` have arrived.
absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path,
                                           int64_t max_bytes = kMaxTextBytes);

// kLater: the caller flushes many files at once with syncfs.
enum class Flush { kNow, kLater };

// Writes a temporary file beside `path` (see CreateTemporaryFile), flushes it and renames it. After
// a crash, and to any reader, the file has the old content or the new, never a part. Replaces a
// link of this name instead of following it. Returns a FileError on failure.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content,
                                 Flush flush = Flush::kNow);

// The same for content in several consecutive parts, without concatenating them in memory.
absl::Status WritePartsAtomically(const std::string& path,
                                  const std::vector<absl::string_view>& parts);

// Copies the file `from` (or the target of that link) to `to`, which appears complete or not at
// all. Copies files of any size in the kernel, or shares their blocks if the file system can,
// without reading them into this process. Returns NotFound if `from` cannot be opened and
// InvalidArgument if it is not a regular file.
absl::Status CopyFileAtomically(const std::string& from, const std::string& to);

// Makes the folder and its parents if they are missing. Returns a FileError on failure.
absl::Status MakeFolder(const std::string& path);
// Makes the folder that contains `path`, like MakeFolder.
absl::Status MakeParentFolder(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_FILE_H_
