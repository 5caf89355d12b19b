#include "core/base/files/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "core/base/files/crc32c.h"

namespace dpipe {
namespace {

// Small enough to stay in the processor's cache between the checksum and the write.
constexpr size_t kPieceBytes = size_t{256} << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<DurableFile>> DurableFile::Create(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return FileError("cannot replace", path, errno);
  }
  DPIPE_ASSIGN_OR_RETURN(OwnedFd fd, CreateNewFile(path));
  return std::unique_ptr<DurableFile>(new DurableFile(path, std::move(fd)));
}

absl::Status DurableFile::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const absl::string_view piece = bytes.substr(0, kPieceBytes);
    const ssize_t written = ::write(fd_.get(), piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("cannot write", path_, errno);
    digest_.size += written;
    digest_.crc32c = ExtendCrc32c(digest_.crc32c, piece.substr(0, written));
    bytes.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::Status DurableFile::Finish() {
  if (::fsync(fd_.get()) != 0) return FileError("cannot flush", path_, errno);
  return fd_.Close() ? absl::OkStatus() : FileError("cannot close", path_, errno);
}

absl::Status SyncFolder(const std::string& path) {
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return FileError("cannot open the folder", path, errno);
  // Some file systems do not support fsync on folders and return EINVAL.
  const bool failed = ::fsync(fd.get()) != 0 && errno != EINVAL;
  return failed ? FileError("cannot flush", path, errno) : absl::OkStatus();
}

absl::StatusOr<FileDigest> DigestFile(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const OwnedFd fd, OpenRegularFile(path));
  FileDigest digest;
  std::string buffer(kPieceBytes, '\0');
  for (;;) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("cannot read", path, errno);
    if (count == 0) return digest;
    digest.size += count;
    digest.crc32c = ExtendCrc32c(digest.crc32c, {buffer.data(), static_cast<size_t>(count)});
  }
}

}  // namespace dpipe
