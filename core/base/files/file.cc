#include "core/base/files/file.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/files/open_file.h"

namespace dpipe {
namespace {

absl::Status WriteAll(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("cannot write", path, errno);
    content.remove_prefix(written);
  }
  return absl::OkStatus();
}

// Copies the rest of `from` through a small buffer.
absl::Status CopyRest(int from, int to, const std::string& from_path, const std::string& to_path) {
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("cannot read", from_path, errno);
    if (count == 0) return absl::OkStatus();
    DPIPE_RETURN_IF_ERROR(WriteAll(to, {buffer.data(), static_cast<size_t>(count)}, to_path));
  }
}

absl::Status CopyAll(int from, int to, const std::string& from_path, const std::string& to_path) {
  constexpr size_t kMaxCopyBytes = size_t{1} << 30;
  while (true) {
    const ssize_t count = ::copy_file_range(from, nullptr, to, nullptr, kMaxCopyBytes, 0);
    if (count < 0 && errno == EINTR) continue;
    // At the end there is nothing left. If the file systems do not support this call, all is left.
    if (count <= 0) return CopyRest(from, to, from_path, to_path);
  }
}

// Calls `write` with a new file beside `path`, then flushes and renames it, or removes it on error.
absl::Status WriteAtomically(const std::string& path, Flush flush,
                             const std::function<absl::Status(int fd, const std::string&)>& write) {
  DPIPE_ASSIGN_OR_RETURN(TemporaryFile file, CreateTemporaryFile(path));
  absl::Status status = write(file.fd.get(), file.path);
  if (status.ok() && flush == Flush::kNow && ::fsync(file.fd.get()) != 0) {
    status = FileError("cannot flush", file.path, errno);
  }
  if (!file.fd.Close() && status.ok()) status = FileError("cannot close", file.path, errno);
  if (status.ok() && ::rename(file.path.c_str(), path.c_str()) != 0) {
    status = FileError("cannot rename to", path, errno);
  }
  if (!status.ok()) ::unlink(file.path.c_str());
  return status;
}

// Reads to the end. For pipes, growing files and the kernel's files, the size is not known before.
absl::StatusOr<std::string> ReadAll(const OwnedFd& fd, const std::string& path, int64_t max_bytes) {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return FileError("cannot read", path, errno);
  if (info.st_size > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", info.st_size, " bytes, more than the maximum of ", max_bytes));
  }
  constexpr int64_t kPieceBytes = 64 << 10;
  std::string content(std::min<int64_t>(max_bytes, info.st_size) + 1, '\0');
  int64_t size = 0;
  for (;;) {
    const ssize_t count = ::read(fd.get(), &content[size], content.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("cannot read", path, errno);
    if (count == 0) break;
    size += count;
    if (size > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has more than the maximum of ", max_bytes, " bytes"));
    }
    if (size == static_cast<int64_t>(content.size())) {
      content.resize(std::min(max_bytes + 1, size + std::max(size, kPieceBytes)));
    }
  }
  content.resize(size);
  return content;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  DPIPE_ASSIGN_OR_RETURN(const OwnedFd fd, OpenRegularFile(path));
  return ReadAll(fd, path, max_bytes);
}

absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path, int64_t max_bytes) {
  DPIPE_ASSIGN_OR_RETURN(const OwnedFd fd, OpenFileOrPipe(path));
  return ReadAll(fd, path, max_bytes);
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content, Flush flush) {
  return WriteAtomically(path, flush, [content](int fd, const std::string& temporary) {
    return WriteAll(fd, content, temporary);
  });
}

absl::Status WritePartsAtomically(const std::string& path,
                                  const std::vector<absl::string_view>& parts) {
  return WriteAtomically(path, Flush::kNow,
                         [&parts](int fd, const std::string& temporary) -> absl::Status {
                           for (const absl::string_view part : parts) {
                             DPIPE_RETURN_IF_ERROR(WriteAll(fd, part, temporary));
                           }
                           return absl::OkStatus();
                         });
}

absl::Status CopyFileAtomically(const std::string& from, const std::string& to) {
  DPIPE_ASSIGN_OR_RETURN(const OwnedFd source, OpenRegularFile(from));
  return WriteAtomically(to, Flush::kNow, [&](int fd, const std::string& temporary) {
    return CopyAll(source.get(), fd, from, temporary);
  });
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return FileError("cannot make folder", path, error.value());
}

absl::Status MakeParentFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return absl::OkStatus();
  return MakeFolder(path.substr(0, slash));
}

}  // namespace dpipe
