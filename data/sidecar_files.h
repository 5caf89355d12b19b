// Images in a folder and its sub-folders, with the captions and condition pictures beside them.
#ifndef DPIPE_DATA_SIDECAR_FILES_H_
#define DPIPE_DATA_SIDECAR_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

struct SidecarSample {
  // Relative to the folder.
  std::string image;
  std::string condition;  // empty: none
  std::string caption;
  bool has_default_caption = false;
};

struct SidecarFiles {
  std::vector<SidecarSample> samples;  // by image, in byte order
  // How many files are left out, of which kinds; how many images are in sub-folders.
  std::vector<std::string> notes;
};

// Every .jpg, .jpeg, .png and .webp with the .txt of the same name. InvalidArgument where there is
// no image, or, of the first five and with their number, where captions are missing and there is no
// default, or cannot be read. Errors of ListFolder.
absl::StatusOr<SidecarFiles> FindSidecarFiles(const std::string& folder,
                                              const std::optional<std::string>& default_caption);

}  // namespace dpipe

#endif  // DPIPE_DATA_SIDECAR_FILES_H_
