// A file that grows by whole records, as a log does, and survives a disk that is full for a while.
#ifndef DPIPE_CORE_BASE_APPEND_FILE_H_
#define DPIPE_CORE_BASE_APPEND_FILE_H_

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
  enum class Start { kEmpty, kKeep };  // what becomes of a file that is already there
  // What is kept in memory while the file cannot be written: hours of log lines.
  static constexpr size_t kMaxPendingBytes = size_t{64} << 20;

  // Creates the file if it is missing; see OpenToAppend for links and errors.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Open(
      const std::string& path, Start start, size_t max_pending_bytes = kMaxPendingBytes);
  // Takes over a descriptor that is open for writing; `path` is its name in messages.
  AppendFile(std::string path, int fd, size_t max_pending_bytes = kMaxPendingBytes);
  // Tries once more to write what is pending, and closes.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Hands the record to the system at once, so that it outlives this process. What cannot be
  // written is kept, in order, for the next call; a record for which there is no room in memory
  // either is dropped.
  void Append(absl::string_view record);
  // Writes what is pending. Unavailable, with how much is; DataLoss, once, where records were
  // dropped.
  absl::Status Flush();

 private:
  absl::Status WritePending();

  const std::string path_;
  const int fd_;
  const size_t max_pending_bytes_;
  std::string pending_;  // may begin within a record
  int64_t dropped_ = 0;  // records, since Flush last reported them
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_APPEND_FILE_H_
