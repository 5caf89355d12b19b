// Parts of files, without the rest.
#ifndef DPIPE_DATA_FILE_PART_H_
#define DPIPE_DATA_FILE_PART_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace dpipe {

// A regular file that is open for reading. Thread-safe.
class InputFile {
 public:
  // NotFound, or InvalidArgument if it is no regular file.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // when it was opened

  // InvalidArgument if the part does not lie inside the file; Unavailable if it cannot be read.
  absl::StatusOr<std::string> Read(int64_t offset, int64_t size) const;

 private:
  InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  int64_t size_ = 0;
};

// Opens the file each time: thousands of shards would be more than a process may hold open.
absl::StatusOr<std::string> ReadFilePart(const std::string& path, int64_t offset, int64_t size);

// What changes when a file is changed, unless someone takes pains to hide it.
struct FileIdentity {
  int64_t size;
  int64_t changed_ns;  // time of last modification, since 1970
};
// NotFound if it is not there.
absl::StatusOr<FileIdentity> IdentifyFile(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_DATA_FILE_PART_H_
