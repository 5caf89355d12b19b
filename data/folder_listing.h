// The names of all files in a folder and its sub-folders.
#ifndef DPIPE_DATA_FOLDER_LISTING_H_
#define DPIPE_DATA_FOLDER_LISTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// Symbolic links: those that end at a regular file are files like any other, wherever that file
// lies; those that end at a folder are not followed, as they may lead in circles.
struct FolderListing {
  // Regular files, and links that end at one or at nothing; relative to the folder, as
  // "cats/7.png", in byte order.
  std::vector<std::string> files;
  // FIFOs, sockets and devices, and links that end at one: they are not opened, as that may block
  // for ever. In byte order.
  std::vector<std::string> special;
  // Of names that begin with a dot, files or folders, which are left out with all that they hold:
  // ".DS_Store", and the "._7.png" that macOS writes beside a 7.png.
  int64_t num_hidden = 0;
  // Sub-folders that are symbolic links.
  int64_t num_linked_folders = 0;
  // Sub-folders that this user may not list, such as "lost+found".
  int64_t num_closed_folders = 0;

  bool Contains(const std::string& file) const;
};

// Reads the folders' entries, and no file. Unavailable, naming it, for a folder that cannot be
// listed for another reason than its permissions, or that is the first.
absl::StatusOr<FolderListing> ListFolder(const std::string& folder);

// True if a file's name is that of an image that is read: .jpg, .jpeg, .png or .webp in any case,
// but not a condition picture's.
bool IsImageName(const std::string& file);

// How condition pictures' names end, instead of ".png".
inline constexpr const char* kConditionSuffixes[] = {".cond.png", ".conditioning.png"};

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDER_LISTING_H_
