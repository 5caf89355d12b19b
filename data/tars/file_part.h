// Reads parts of files.
#ifndef DPIPE_DATA_TARS_FILE_PART_H_
#define DPIPE_DATA_TARS_FILE_PART_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace dpipe {

// A regular file that is open for reading. Thread-safe.
class InputFile {
 public:
  // Returns NotFound if the file cannot be opened, and InvalidArgument if it is not a regular file.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // at the time of opening

  // Returns InvalidArgument if the part is not inside the file, and Unavailable if it cannot be
  // read.
  absl::StatusOr<std::string> Read(int64_t offset, int64_t size) const;

 private:
  InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  int64_t size_ = 0;
};

// Opens the file for each call, because a process cannot hold thousands of shards open.
absl::StatusOr<std::string> ReadFilePart(const std::string& path, int64_t offset, int64_t size);

// Changes whenever the file is changed, unless someone deliberately hides the change.
struct FileIdentity {
  int64_t size;
  int64_t changed_ns;  // time of last modification, since 1970
};
// Returns NotFound if the file is missing.
absl::StatusOr<FileIdentity> IdentifyFile(const std::string& path);

}  // namespace dpipe

#endif  // DPIPE_DATA_TARS_FILE_PART_H_
