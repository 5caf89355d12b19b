// Finds images in a folder and its sub-folders, with the captions and condition pictures beside
// them.
#ifndef DPIPE_DATA_FOLDERS_SIDECAR_FILES_H_
#define DPIPE_DATA_FOLDERS_SIDECAR_FILES_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/folders/folder_listing.h"

namespace dpipe {

struct SidecarSample {
  // Relative to the folder.
  std::string image;
  std::string condition;  // empty if there is none
  std::string caption;
  bool has_default_caption = false;
};

struct SidecarFiles {
  std::vector<SidecarSample> samples;  // by image, in byte order
  // The number of ignored files by kind, the number of images in sub-folders, and the captions that
  // are not UTF-8.
  std::vector<std::string> notes;
};

// Finds every image of a folder and its caption. The caption of a.png is the first existing file of
// a.txt, a.caption, a.png.txt and a.png.caption.
//
// Returns InvalidArgument if there is no image, or if captions are unreadable, or missing without a
// default. The message names the first five and their number.
absl::StatusOr<SidecarFiles> FindSidecarFiles(const std::string& folder,
                                              const FolderListing& listing,
                                              const std::optional<std::string>& default_caption);

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDERS_SIDECAR_FILES_H_
