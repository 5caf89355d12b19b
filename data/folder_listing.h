// The names of all files in a folder and its sub-folders.
#ifndef DPIPE_DATA_FOLDER_LISTING_H_
#define DPIPE_DATA_FOLDER_LISTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

struct FolderListing {
  // Relative to the folder, as "cats/7.png", in byte order. Links to files, whether or not there
  // is a file at their end, are in the list.
  std::vector<std::string> files;
  // Of names that begin with a dot, files or folders, which are left out with all that they hold:
  // ".DS_Store", and the "._7.png" that macOS writes beside a 7.png.
  int64_t num_hidden = 0;
  // Sub-folders that are symbolic links, which are not followed, as they may lead in circles.
  int64_t num_linked_folders = 0;
  // Sub-folders that this user may not list, such as "lost+found".
  int64_t num_closed_folders = 0;

  bool Contains(const std::string& file) const;
};

// Reads the folders' entries, and no file. Unavailable, naming it, for a folder that cannot be
// listed for another reason than its permissions, or that is the first.
absl::StatusOr<FolderListing> ListFolder(const std::string& folder);

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDER_LISTING_H_
