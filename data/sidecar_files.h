// Images in a folder and its sub-folders, with the captions and condition pictures beside them.
#ifndef DPIPE_DATA_SIDECAR_FILES_H_
#define DPIPE_DATA_SIDECAR_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/folder_listing.h"

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
  // How many files are left out, of which kinds; how many images are in sub-folders; which captions
  // are not UTF-8.
  std::vector<std::string> notes;
};

// Finds every image of a folder and its caption: of a.png the first of a.txt, a.caption, a.png.txt
// and a.png.caption that is there.
//
// InvalidArgument if there is no image, or, of the first five and with their number, if captions
// are missing and there is no default, or cannot be read.
absl::StatusOr<SidecarFiles> FindSidecarFiles(const std::string& folder,
                                              const FolderListing& listing,
                                              const std::optional<std::string>& default_caption);

}  // namespace dpipe

#endif  // DPIPE_DATA_SIDECAR_FILES_H_
