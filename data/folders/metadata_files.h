// Finds a folder's metadata files by the conventions of Hugging Face's imagefolder.
#ifndef DPIPE_DATA_FOLDERS_METADATA_FILES_H_
#define DPIPE_DATA_FOLDERS_METADATA_FILES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "data/folders/folder_listing.h"

namespace dpipe {

struct MetadataFiles {
  // Relative to the folder, in byte order. Each names images relative to its own folder. Empty if
  // the folder has no metadata.
  std::vector<std::string> files;
  // Sub-folders, like "test/", whose metadata is not read.
  std::vector<std::string> other_splits;
  std::vector<std::string> notes;  // see SampleSource
};

// Finds `metadata.jsonl`, or else `metadata.csv`, in the folder itself, or else in each of its
// sub-folders. If one of these is a training split (`train/`), sub-folders named like test or
// validation splits are left out, with a note.
//
// Returns Unimplemented, with advice on conversion, if there is a `metadata.parquet` instead, or
// Parquet tables and no image. `folder` is the path of the listing's folder, for messages.
absl::StatusOr<MetadataFiles> FindMetadataFiles(const std::string& folder,
                                                const FolderListing& listing);

// Returns the folder of a file in a listing: "train/" or "".
absl::string_view FolderOf(absl::string_view file);

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDERS_METADATA_FILES_H_
