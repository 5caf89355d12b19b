#include "core/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

absl::Status ErrnoStatus(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(what, " ", path, ": ", std::strerror(errno)));
}

absl::Status WriteAll(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus("cannot write", path);
    content.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::Status WriteAllParts(int fd, const std::vector<absl::string_view>& parts,
                           const std::string& path) {
  for (const absl::string_view part : parts) DPIPE_RETURN_IF_ERROR(WriteAll(fd, part, path));
  if (::fsync(fd) != 0) return ErrnoStatus("cannot flush", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a folder, not a file"));
  }
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in)
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  const int64_t size = in.tellg();
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", size, " bytes, more than the limit of ", max_bytes));
  }
  std::string content(size, '\0');
  in.seekg(0);
  if (!in.read(content.data(), size)) {
    return absl::DataLossError(absl::StrCat("cannot read all ", size, " bytes of ", path));
  }
  return content;
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content) {
  return WritePartsAtomically(path, {content});
}

absl::Status WritePartsAtomically(const std::string& path,
                                  const std::vector<absl::string_view>& parts) {
  static std::atomic<int> counter{0};
  const std::string temporary = absl::StrCat(path, ".tmp.", ::getpid(), ".", counter.fetch_add(1));
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus("cannot create", temporary);
  absl::Status status = WriteAllParts(fd, parts, temporary);
  if (::close(fd) != 0 && status.ok()) status = ErrnoStatus("cannot close", temporary);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus("cannot rename to", path);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot make folder ", path, ": ", error.message()));
  return absl::OkStatus();
}

absl::Status MakeParentFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return absl::OkStatus();
  return MakeFolder(path.substr(0, slash));
}

}  // namespace dpipe
