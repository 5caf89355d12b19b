#include "core/base/files/open_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dpipe {
namespace {

constexpr mode_t kFileMode = 0644;  // minus the user's umask
constexpr int kCreateNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

std::string KindOf(const std::string& path, mode_t mode) {
  if (S_ISDIR(mode)) return absl::StrCat(path, " is a folder, not a file");
  const char* const kind = S_ISFIFO(mode)   ? "a named pipe"
                           : S_ISSOCK(mode) ? "a socket"
                                            : "a device";
  return absl::StrCat(path, " is ", kind, ", not a regular file");
}

bool IsAnonymousPipe(int fd) {
  struct statfs info;
  return ::fstatfs(fd, &info) == 0 && info.f_type == PIPEFS_MAGIC;
}

absl::StatusOr<OwnedFd> Open(const std::string& path, bool may_be_pipe) {
  struct stat info;
  const auto cannot_open = [&path] {
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  };
  // Checked before opening too, because opening some devices has side effects.
  if (::stat(path.c_str(), &info) != 0) return cannot_open();
  const auto is_refused = [&] {
    return !S_ISREG(info.st_mode) && !(may_be_pipe && S_ISFIFO(info.st_mode));
  };
  if (is_refused()) return absl::InvalidArgumentError(KindOf(path, info.st_mode));
  OwnedFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (fd.get() < 0) return cannot_open();
  if (::fstat(fd.get(), &info) != 0) return cannot_open();
  const bool is_named_pipe = S_ISFIFO(info.st_mode) && !IsAnonymousPipe(fd.get());
  if (is_refused() || is_named_pipe) {
    return absl::InvalidArgumentError(KindOf(path, info.st_mode));
  }
  // Makes reads wait for the pipe's writer.
  if (S_ISFIFO(info.st_mode) && ::fcntl(fd.get(), F_SETFL, O_RDONLY) != 0) return cannot_open();
  return fd;
}

std::string RandomDigits() {
  uint64_t number = 0;
  // For so few bytes this is never interrupted, and it cannot fail on Linux 3.17 or newer.
  while (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  return absl::StrFormat("%016x", number);
}

// Returns the target of a link that this user or root owns, or FailedPrecondition for other owners.
absl::StatusOr<std::string> TargetOfTrustedLink(const std::string& path) {
  const OwnedFd link(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (link.get() < 0 || ::fstat(link.get(), &info) != 0) {
    return FileError("cannot open", path, errno);
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is a link created by another user; remove it"));
  }
  char target[PATH_MAX + 1];
  const ssize_t size = ::readlinkat(link.get(), "", target, PATH_MAX);
  if (size < 0) return FileError("cannot read the link", path, errno);
  const std::string text(target, size);
  const size_t slash = path.rfind('/');
  const bool is_beside = text.empty() || text[0] != '/';
  return is_beside && slash != std::string::npos ? path.substr(0, slash + 1) + text : text;
}

// True if the file system that would hold `path` counts inodes and has none left.
bool HasNoInodes(const std::string& path) {
  struct statvfs space;
  std::string folder = path;
  do {
    const size_t slash = folder.rfind('/');
    folder = slash == std::string::npos ? "." : slash == 0 ? "/" : folder.substr(0, slash);
    if (::statvfs(folder.c_str(), &space) == 0) return space.f_files > 0 && space.f_favail == 0;
  } while (folder.size() > 1);
  return false;
}

}  // namespace

OwnedFd::OwnedFd(OwnedFd&& other) noexcept : fd_(other.Release()) {}

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnedFd::~OwnedFd() { Close(); }

int OwnedFd::Release() { return std::exchange(fd_, -1); }

bool OwnedFd::Close() {
  const int fd = Release();
  return fd < 0 || ::close(fd) == 0;
}

absl::StatusOr<OwnedFd> OpenRegularFile(const std::string& path) {
  return Open(path, /*may_be_pipe=*/false);
}

absl::StatusOr<OwnedFd> OpenFileOrPipe(const std::string& path) {
  return Open(path, /*may_be_pipe=*/true);
}

absl::StatusOr<OwnedFd> CreateNewFile(const std::string& path) {
  OwnedFd fd(::open(path.c_str(), kCreateNew, kFileMode));
  if (fd.get() < 0) return FileError("cannot create", path, errno);
  return fd;
}

absl::StatusOr<TemporaryFile> CreateTemporaryFile(const std::string& path) {
  TemporaryFile file;
  file.path = absl::StrCat(path, ".tmp.", RandomDigits());
  DPIPE_ASSIGN_OR_RETURN(file.fd, CreateNewFile(file.path));
  return file;
}

absl::StatusOr<OwnedFd> OpenToAppend(const std::string& path, bool truncate) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                    (truncate ? O_TRUNC : 0);
  OwnedFd fd(::open(path.c_str(), flags, kFileMode));
  if (fd.get() < 0 && errno == ELOOP) {
    DPIPE_ASSIGN_OR_RETURN(const std::string target, TargetOfTrustedLink(path));
    fd = OwnedFd(::open(target.c_str(), flags & ~O_NOFOLLOW, kFileMode));
  }
  if (fd.get() < 0) return FileError("cannot open", path, errno);
  // Clears O_NONBLOCK: no caller that writes here handles EAGAIN.
  if (::fcntl(fd.get(), F_SETFL, O_APPEND) != 0) return FileError("cannot open", path, errno);
  return fd;
}

absl::Status MakeOwnFolder(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
  if (errno != EEXIST) return FileError("cannot make folder", path, errno);
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) return FileError("cannot make folder", path, errno);
  if (S_ISDIR(info.st_mode) && info.st_uid == ::geteuid()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cannot make folder ", path, ": there is a ",
                                                    S_ISDIR(info.st_mode) ? "folder of another user"
                                                    : S_ISLNK(info.st_mode) ? "link"
                                                                            : "file",
                                                    " of this name; remove it"));
}

absl::Status FileError(absl::string_view what, const std::string& path, int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const std::string reason =
      error == ENOSPC && HasNoInodes(path)
          ? "No space left on device: it has no free inodes (see df -i); remove some files"
          : std::strerror(error);
  return absl::Status(is_full ? absl::StatusCode::kOutOfRange : absl::StatusCode::kUnavailable,
                      absl::StrCat(what, " ", path, ": ", reason));
}

bool IsDiskFull(const absl::Status& status) { return absl::IsOutOfRange(status); }

}  // namespace dpipe
