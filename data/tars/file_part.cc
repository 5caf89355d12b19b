#include "data/tars/file_part.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files/open_file.h"

namespace dpipe {

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(OwnedFd fd, OpenRegularFile(path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return FileError("cannot read", path, errno);
  InputFile file(path, fd.Release());
  file.size_ = info.st_size;
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::string> InputFile::Read(int64_t offset, int64_t size) const {
  if (offset < 0 || size < 0 || offset > size_ || size > size_ - offset) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": cannot read ", size,
                                                   " bytes at offset ", offset, " of a file of ",
                                                   size_, " bytes"));
  }
  std::string bytes(size, '\0');
  int64_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd_, &bytes[done], size - done, offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(absl::StrCat("cannot read ", path_, ": ", strerror(errno)));
    }
    if (count == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": truncated at byte ", offset + done, " while being read"));
    }
    done += count;
  }
  return bytes;
}

absl::StatusOr<std::string> ReadFilePart(const std::string& path, int64_t offset, int64_t size) {
  DPIPE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  return file.Read(offset, size);
}

absl::StatusOr<FileIdentity> IdentifyFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot find ", path, ": ", strerror(errno)));
  }
  return FileIdentity{info.st_size,
                      int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

}  // namespace dpipe
