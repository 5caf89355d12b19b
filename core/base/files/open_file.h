// Opens and creates files in folders that other people can write to.
//
// Reading: only regular files, or links to them. Opening a FIFO, a socket or a device can block for
// ever, and these have no size to check.
//
// Creating: only unused names, never through a link (O_EXCL | O_NOFOLLOW). To replace a file, write
// the content under a temporary name, then rename(2) it, which replaces a link instead of following
// it.
#ifndef DPIPE_CORE_BASE_FILES_OPEN_FILE_H_
#define DPIPE_CORE_BASE_FILES_OPEN_FILE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// Owns a file descriptor and closes it on destruction. Movable.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept;
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();

  int get() const { return fd_; }  // -1 if there is none
  // Releases ownership of the descriptor to the caller.
  int Release();
  // Closes immediately. Returns false, and sets errno, if the system reports an error of an earlier
  // write.
  bool Close();

 private:
  int fd_ = -1;
};

// Opens a regular file, or a link to one, for reading. Returns NotFound if it cannot be opened.
// Returns InvalidArgument, naming the kind, for a folder, FIFO, socket or device.
absl::StatusOr<OwnedFd> OpenRegularFile(const std::string& path);

// The same, but also accepts the reading end of a pipe (`/dev/stdin` behind `|`, or a shell's
// `<(...)`). A pipe has no size, so its reader must limit the bytes it takes. Named FIFOs are
// refused.
absl::StatusOr<OwnedFd> OpenFileOrPipe(const std::string& path);

// Creates the file `path` for writing. Returns a FileError if it exists or cannot be created.
absl::StatusOr<OwnedFd> CreateNewFile(const std::string& path);

struct TemporaryFile {
  std::string path;
  OwnedFd fd;
};
// Creates a file beside `path` for writing. Its name is `path` plus ".tmp." and 16 random
// hexadecimal digits.
absl::StatusOr<TemporaryFile> CreateTemporaryFile(const std::string& path);

// Opens `path` for appending, and creates it if it is missing. Follows a link only if this user or
// root owns it: in a folder that others can write to, their link could lead to any file. Returns an
// error for a FIFO without a reader. If `truncate` is true, empties the file first.
absl::StatusOr<OwnedFd> OpenToAppend(const std::string& path, bool truncate);

// Makes the folder `path`, whose parent must exist, for files under construction. Keeps an existing
// folder if this user owns it, so that something may be mounted there. Returns FailedPrecondition
// for a file, a link or another user's folder.
absl::Status MakeOwnFolder(const std::string& path);

// Returns an error "WHAT PATH: reason" for the system's error number `error`. The code is
// OutOfRange if a disk or a quota is full, no inode is left, or a file would be too large (see
// IsDiskFull). Otherwise it is Unavailable.
absl::Status FileError(absl::string_view what, const std::string& path, int error);

// True if `status` reports a full disk. ResourceExhausted, in contrast, means memory.
bool IsDiskFull(const absl::Status& status);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_OPEN_FILE_H_
