// Lists the names of all files in a folder and its sub-folders.
#ifndef DPIPE_DATA_FOLDERS_FOLDER_LISTING_H_
#define DPIPE_DATA_FOLDERS_FOLDER_LISTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// The files of a folder. Symbolic links to regular files are included, wherever these are. Symbolic
// links to folders are not followed, because they may form a cycle.
struct FolderListing {
  // Regular files, links to regular files, and broken links; relative to the folder, like
  // "cats/7.png", in byte order.
  std::vector<std::string> files;
  // FIFOs, sockets and devices, and links to them. They are not opened, because that may block for
  // ever. In byte order.
  std::vector<std::string> special;
  // The number of files and folders whose names begin with a dot. They are skipped with all their
  // content: ".DS_Store", and the "._7.png" that macOS writes beside a 7.png.
  int64_t num_hidden = 0;
  // The number of sub-folders that are symbolic links.
  int64_t num_linked_folders = 0;
  // The number of sub-folders that this user may not list, such as "lost+found".
  int64_t num_closed_folders = 0;

  bool Contains(const std::string& file) const;
};

// Reads directory entries only, no files. Returns Unavailable, naming the folder, if `folder`
// cannot be listed, or if a sub-folder cannot be listed for a reason other than its permissions.
absl::StatusOr<FolderListing> ListFolder(const std::string& folder);

// True if the name is that of a readable image: .jpg, .jpeg, .png or .webp in any case, but not
// that of a condition picture.
bool IsImageName(const std::string& file);

// The endings of condition pictures' names, which replace ".png".
inline constexpr const char* kConditionSuffixes[] = {".cond.png", ".conditioning.png"};

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDERS_FOLDER_LISTING_H_
