// Files written piece by piece that are on the disk when they are said to be, with a checksum of
// what was written.
#ifndef DPIPE_CORE_BASE_DURABLE_FILE_H_
#define DPIPE_CORE_BASE_DURABLE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/base/open_file.h"
#include "core/base/status.h"

namespace dpipe {

struct FileDigest {
  int64_t size = 0;
  uint32_t crc32c = 0;
  bool operator==(const FileDigest& other) const {
    return size == other.size && crc32c == other.crc32c;
  }
};

// Errors are FileErrors: they name the file and the system's reason.
class DurableFile {
 public:
  // Creates an empty file. What had the name is removed first: a link is not followed.
  static absl::StatusOr<std::unique_ptr<DurableFile>> Create(const std::string& path);
  // The destructor closes. A file that was not finished stays as it is, for its writer to remove.
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  absl::Status Append(absl::string_view bytes);
  // Waits until the disk has everything, and closes. The file's name is another matter: see
  // SyncFolder.
  absl::Status Finish();

  const FileDigest& digest() const { return digest_; }

 private:
  DurableFile(std::string path, OwnedFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  const std::string path_;
  OwnedFd fd_;
  FileDigest digest_;
};

// Waits until the disk knows which files the folder has.
absl::Status SyncFolder(const std::string& path);

// Reads the file once. The errors of OpenRegularFile, or a FileError.
absl::StatusOr<FileDigest> DigestFile(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_DURABLE_FILE_H_
