// Opens and creates files in folders that other people can write to.
//
// Reading: only regular files, or links to them. Opening a FIFO, a socket or a device can block for
// ever, and has no size that could be checked.
// Creating: only names that were free, never through a link (O_EXCL | O_NOFOLLOW). A file that is
// replaced gets its content under a temporary name, then the final name by rename(2), which
// replaces a link instead of following it.
#ifndef DPIPE_CORE_BASE_OPEN_FILE_H_
#define DPIPE_CORE_BASE_OPEN_FILE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// A file descriptor, closed at the end of its life. Movable.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept;
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();

  int get() const { return fd_; }  // -1: none
  // Leaves the descriptor to the caller.
  int Release();
  // Closes now; false, with errno, if the system reports an error that a write left behind.
  bool Close();

 private:
  int fd_ = -1;
};

// Opens a regular file, or a link to one, for reading. NotFound if it cannot be opened;
// InvalidArgument, which says what it is, for a folder, FIFO, socket or device.
absl::StatusOr<OwnedFd> OpenRegularFile(const std::string& path);

// The same, and the reading end of a pipe (`/dev/stdin` behind `|`, `<(...)` of a shell), which has
// no size: its reader must limit what it takes. FIFOs with a name in a folder stay refused.
absl::StatusOr<OwnedFd> OpenFileOrPipe(const std::string& path);

// Creates the file `path`, which must be free, for writing. FileError otherwise.
absl::StatusOr<OwnedFd> CreateNewFile(const std::string& path);

struct TemporaryFile {
  std::string path;
  OwnedFd fd;
};
// Creates a file beside `path` for writing: its name with ".tmp." and 16 random hexadecimal digits.
absl::StatusOr<TemporaryFile> CreateTemporaryFile(const std::string& path);

// Opens `path` for appending, and creates it if it is missing. A link is followed only if this user
// or root made it: in a folder that others can write to, theirs could lead to any file. A FIFO that
// nobody reads is an error. `truncate`: empties the file first.
absl::StatusOr<OwnedFd> OpenToAppend(const std::string& path, bool truncate);

// Makes the folder `path`, whose parent exists, for files under construction. A folder of this name
// is kept if this user made it (so that something may be mounted there); a link, or another user's
// folder, is FailedPrecondition.
absl::Status MakeOwnFolder(const std::string& path);

// Returns "WHAT PATH: reason" for the system's error number `error`: OutOfRange if a disk or a
// quota is full, no inode is left, or a file would be too large (see IsDiskFull), else Unavailable.
absl::Status FileError(absl::string_view what, const std::string& path, int error);

// True if `status` is that of a full disk. ResourceExhausted, in contrast, is memory.
bool IsDiskFull(const absl::Status& status);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_OPEN_FILE_H_
