// A folder for temporary files.
#ifndef DPIPE_CORE_BASE_SCRATCH_FOLDER_H_
#define DPIPE_CORE_BASE_SCRATCH_FOLDER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dpipe {

// New, empty, and removed with all that is in it at the end of this object's life. For tests, whose
// cases must not see one another's files. Dies where no folder can be made.
class ScratchFolder {
 public:
  // Where files are on a disk: $TEST_TMPDIR, $TMPDIR or /tmp. In memory: /dev/shm, if it is there;
  // for many small files, quickly.
  enum class Place { kDisk, kMemory };
  explicit ScratchFolder(Place place = Place::kDisk);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  // The path of a file in it; makes nothing.
  std::string File(absl::string_view name) const;

 private:
  std::string path_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_SCRATCH_FOLDER_H_
