#include "core/base/files/append_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"
#include "core/base/files/open_file.h"

namespace dpipe {

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Open(const std::string& path, Start start,
                                                             size_t max_pending_bytes) {
  auto fd = OpenToAppend(path, start == Start::kEmpty);
  if (!fd.ok()) {
    return absl::Status(fd.status().code(), absl::StrCat("the log: ", fd.status().message()));
  }
  return std::make_unique<AppendFile>(path, fd->Release(), max_pending_bytes);
}

AppendFile::AppendFile(std::string path, int fd, size_t max_pending_bytes)
    : path_(std::move(path)), fd_(fd), max_pending_bytes_(max_pending_bytes) {}

AppendFile::~AppendFile() {
  WritePending().IgnoreError();  // Flush has reported the error
  ::close(fd_);
}

void AppendFile::Append(absl::string_view record) {
  if (pending_.size() + record.size() > max_pending_bytes_ && !WritePending().ok()) {
    ++dropped_;
    return;
  }
  pending_.append(record.data(), record.size());
  WritePending().IgnoreError();  // the bytes stay pending and Flush reports the error
}

absl::Status AppendFile::WritePending() {
  size_t written = 0;
  int error = 0;
  while (written < pending_.size() && error == 0) {
    const ssize_t count = ::write(fd_, pending_.data() + written, pending_.size() - written);
    if (count >= 0) {
      written += count;
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  pending_.erase(0, written);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write the log ", path_, ": ",
                                             std::strerror(error), "; ",
                                             FormatBytes(pending_.size()), " not yet written"));
}

absl::Status AppendFile::Flush() {
  DPIPE_RETURN_IF_ERROR(WritePending());
  const int64_t dropped = std::exchange(dropped_, 0);
  if (dropped == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the log ", path_, " is missing ", dropped,
                   " records: they arrived while it could not be written and its backlog of ",
                   FormatBytes(max_pending_bytes_), " was full"));
}

}  // namespace dpipe
