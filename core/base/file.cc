#include "core/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
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
  return absl::OkStatus();
}

// What is left of `from`, through a small buffer.
absl::Status CopyRest(int from, int to, const std::string& from_path, const std::string& to_path) {
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus("cannot read", from_path);
    if (count == 0) return absl::OkStatus();
    DPIPE_RETURN_IF_ERROR(WriteAll(to, {buffer.data(), static_cast<size_t>(count)}, to_path));
  }
}

absl::Status CopyAll(int from, int to, const std::string& from_path, const std::string& to_path) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;
  while (true) {
    const ssize_t count = ::copy_file_range(from, nullptr, to, nullptr, kMostAtOnce, 0);
    if (count < 0 && errno == EINTR) continue;
    // At the end nothing is left; where the file systems cannot do it, everything is.
    if (count <= 0) return CopyRest(from, to, from_path, to_path);
  }
}

// `write` gets a new file beside `path`, which is then flushed and renamed, or removed on error.
absl::Status WriteAtomically(const std::string& path,
                             const std::function<absl::Status(int fd, const std::string&)>& write) {
  static std::atomic<int> counter{0};
  const std::string temporary = absl::StrCat(path, ".tmp.", ::getpid(), ".", counter.fetch_add(1));
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus("cannot create", temporary);
  absl::Status status = write(fd, temporary);
  if (status.ok() && ::fsync(fd) != 0) status = ErrnoStatus("cannot flush", temporary);
  if (::close(fd) != 0 && status.ok()) status = ErrnoStatus("cannot close", temporary);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus("cannot rename to", path);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
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
  return WriteAtomically(path, [&parts](int fd, const std::string& temporary) {
    return WriteAllParts(fd, parts, temporary);
  });
}

absl::Status CopyFileAtomically(const std::string& from, const std::string& to) {
  const int source = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) {
    return absl::NotFoundError(absl::StrCat("cannot open ", from, ": ", std::strerror(errno)));
  }
  const absl::Status status = WriteAtomically(to, [&](int fd, const std::string& temporary) {
    return CopyAll(source, fd, from, temporary);
  });
  ::close(source);
  return status;
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  const bool is_full = error == std::errc::no_space_on_device;
  return absl::Status(
      is_full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
      absl::StrCat("cannot make folder ", path, ": ", error.message()));
}

absl::Status MakeParentFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return absl::OkStatus();
  return MakeFolder(path.substr(0, slash));
}

}  // namespace dpipe
