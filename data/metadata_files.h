// Which files of a folder are its metadata, as Hugging Face's imagefolder has them.
#ifndef DPIPE_DATA_METADATA_FILES_H_
#define DPIPE_DATA_METADATA_FILES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "data/folder_listing.h"

namespace dpipe {

struct MetadataFiles {
  // Relative to the folder, in byte order; each names images relative to the folder it lies in.
  // None: the folder has no metadata.
  std::vector<std::string> files;
  // Sub-folders, as "test/", whose metadata is not read.
  std::vector<std::string> other_splits;
  std::vector<std::string> notes;  // see SampleSource
};

// Finds `metadata.jsonl`, or else `metadata.csv`, in the folder itself, or else in each of its
// sub-folders. If one of these is a training split (`train/`), sub-folders that are test or
// validation splits by their names are left out, with a note.
//
// Unimplemented if there is a `metadata.parquet` instead, or Parquet tables and no image; it says
// how to convert them. `folder` is the listing's, for messages.
absl::StatusOr<MetadataFiles> FindMetadataFiles(const std::string& folder,
                                                const FolderListing& listing);

// Returns the folder that a file of a listing lies in, "train/" or "".
absl::string_view FolderOf(absl::string_view file);

}  // namespace dpipe

#endif  // DPIPE_DATA_METADATA_FILES_H_
