// Files that are written piece by piece, are on the disk once finished, and have a checksum.
#ifndef DPIPE_CORE_BASE_FILES_DURABLE_FILE_H_
#define DPIPE_CORE_BASE_FILES_DURABLE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "core/base/files/open_file.h"
#include "core/base/status.h"

namespace dpipe {

struct FileDigest {
  int64_t size = 0;
  uint32_t crc32c = 0;
  bool operator==(const FileDigest& other) const {
    return size == other.size && crc32c == other.crc32c;
  }
};

// A file open for writing. Its errors are FileErrors, which name the file and the system's reason.
class DurableFile {
 public:
  // Creates an empty file, after removing any file or link of that name. A link is not followed.
  static absl::StatusOr<std::unique_ptr<DurableFile>> Create(const std::string& path);
  // The destructor closes. An unfinished file stays on the disk, for the caller to remove.
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  absl::Status Append(absl::string_view bytes);
  // Blocks until the disk has all bytes, then closes the file. Its directory entry needs
  // SyncFolder.
  absl::Status Finish();

  const FileDigest& digest() const { return digest_; }

 private:
  DurableFile(std::string path, OwnedFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  const std::string path_;
  OwnedFd fd_;
  FileDigest digest_;
};

// Blocks until the disk has the folder's directory entries.
absl::Status SyncFolder(const std::string& path);

// Reads the file once. Returns an error of OpenRegularFile, or a FileError.
absl::StatusOr<FileDigest> DigestFile(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_DURABLE_FILE_H_
