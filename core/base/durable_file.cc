#include "core/base/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/crc32c.h"

namespace dpipe {
namespace {

// Small enough to stay in the processor's cache between the checksum and the copy to the system.
constexpr size_t kPieceBytes = size_t{256} << 10;

absl::Status ErrnoStatus(absl::string_view what, const std::string& path) {
  const bool is_full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
  return absl::Status(
      is_full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
      absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DurableFile>> DurableFile::Create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus("cannot create", path);
  return std::unique_ptr<DurableFile>(new DurableFile(path, fd));
}

DurableFile::~DurableFile() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status DurableFile::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const absl::string_view piece = bytes.substr(0, kPieceBytes);
    const ssize_t written = ::write(fd_, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus("cannot write", path_);
    digest_.size += written;
    digest_.crc32c = ExtendCrc32c(digest_.crc32c, piece.substr(0, written));
    bytes.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::Status DurableFile::Finish() {
  if (::fsync(fd_) != 0) return ErrnoStatus("cannot flush", path_);
  const int closed = ::close(std::exchange(fd_, -1));
  return closed == 0 ? absl::OkStatus() : ErrnoStatus("cannot close", path_);
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("cannot open the folder", path);
  // Some file systems have no such thing for folders, and say EINVAL.
  const bool failed = ::fsync(fd) != 0 && errno != EINVAL;
  const absl::Status status = failed ? ErrnoStatus("cannot flush", path) : absl::OkStatus();
  ::close(fd);
  return status;
}

absl::StatusOr<FileDigest> DigestFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  FileDigest digest;
  std::string buffer(kPieceBytes, '\0');
  for (;;) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const absl::Status status = ErrnoStatus("cannot read", path);
      ::close(fd);
      return status;
    }
    if (count == 0) break;
    digest.size += count;
    digest.crc32c = ExtendCrc32c(digest.crc32c, {buffer.data(), static_cast<size_t>(count)});
  }
  ::close(fd);
  return digest;
}

}  // namespace dpipe
