// A folder for temporary files.
#ifndef DPIPE_CORE_BASE_FILES_SCRATCH_FOLDER_H_
#define DPIPE_CORE_BASE_FILES_SCRATCH_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dpipe {

// An empty new folder that is removed with its content on destruction. For tests, whose cases must
// not see each other's files. Dies if the folder cannot be made.
class ScratchFolder {
 public:
  // kDisk: in $TEST_TMPDIR, $TMPDIR or /tmp. kMemory: in /dev/shm if it exists, which is faster for
  // many small files.
  enum class Place { kDisk, kMemory };
  explicit ScratchFolder(Place place = Place::kDisk);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  // Returns the path of a file in the folder. Creates nothing.
  std::string File(absl::string_view name) const;

 private:
  std::string path_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_FILES_SCRATCH_FOLDER_H_
