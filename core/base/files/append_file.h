// A file that grows by whole records, like a log, and survives a temporarily full disk.
#ifndef DPIPE_CORE_BASE_FILES_APPEND_FILE_H_
#define DPIPE_CORE_BASE_FILES_APPEND_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// Not thread-safe.
class AppendFile {
 public:
  enum class Start { kEmpty, kKeep };  // what happens to an existing file
  // Maximum size of the backlog while the file cannot be written: hours of log lines.
  static constexpr size_t kMaxPendingBytes = size_t{64} << 20;

  // Creates the file if it is missing. See OpenToAppend for links and errors.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Open(
      const std::string& path, Start start, size_t max_pending_bytes = kMaxPendingBytes);
  // Takes ownership of `fd`, which is open for writing. `path` is its name in messages.
  AppendFile(std::string path, int fd, size_t max_pending_bytes = kMaxPendingBytes);
  // Makes a last attempt to write the backlog, then closes the file.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Writes the record immediately, so that it outlives this process. Keeps bytes that cannot be
  // written, in order, for the next call. Drops the record if the backlog has no room for it.
  void Append(absl::string_view record);
  // Writes the backlog. Returns Unavailable, with the number of bytes still unwritten, if that
  // fails. Returns DataLoss, once, if records were dropped.
  absl::Status Flush();

 private:
  absl::Status WritePending();

  const std::string path_;
  const int fd_;
  const size_t max_pending_bytes_;
  std::string pending_;  // the backlog; may begin inside a record
  int64_t dropped_ = 0;  // records dropped since Flush last reported them
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_APPEND_FILE_H_
