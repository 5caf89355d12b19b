#include "data/open_samples.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/count.h"
#include "data/captions/sample_findings.h"
#include "data/folders/folder_dataset.h"
#include "data/folders/folder_listing.h"
#include "data/tars/shard_pattern.h"
#include "data/tars/tar_dataset.h"

namespace dpipe {

namespace {

// True if `path` names tar files: by its ending (including compressed files), or because it is a
// file.
bool NamesShards(const std::string& path) {
  for (const char* ending : {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"}) {
    if (absl::EndsWith(path, ending)) return true;
  }
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

bool HasFile(const std::string& folder, const char* file) {
  return access(absl::StrCat(folder, "/", file).c_str(), F_OK) == 0;
}

// Returns the pattern of the shards, or "" for a folder of images.
std::string ShardsOf(const std::string& path) {
  if (NamesShards(path)) return path;
  if (HasFile(path, "metadata.jsonl") || HasFile(path, "metadata.csv")) return "";
  const std::string shards = absl::StrCat(path, "/*.tar");
  return FindShards(shards).ok() ? shards : "";
}

absl::StatusOr<CountedNames> ImagesIn(const std::string& folder) {
  DPIPE_ASSIGN_OR_RETURN(const FolderListing listing, ListFolder(folder));
  CountedNames images;
  for (const std::string& file : listing.files) {
    if (IsImageName(file)) images.Add(file);
  }
  return images;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SampleSource>> OpenSamples(const std::string& path,
                                                          const OpenSamplesOptions& options) {
  const std::string shards = ShardsOf(path);
  if (!shards.empty()) {
    TarDatasetOptions tar_options;
    tar_options.caption_column = options.caption_column;
    tar_options.default_caption = options.default_caption;
    DPIPE_ASSIGN_OR_RETURN(std::unique_ptr<TarDataset> dataset,
                           TarDataset::Open(shards, tar_options));
    if (shards != path) {
      DPIPE_ASSIGN_OR_RETURN(const CountedNames images, ImagesIn(path));
      if (images.count() > 0) {
        dataset->AddNote(
            absl::StrCat("only the .tar files are read; ignored: ", Count(images.count(), "image"),
                         " beside them: ", images.ToString()));
      }
    }
    return dataset;
  }
  FolderDatasetOptions folder_options;
  folder_options.file_column = options.file_column;
  folder_options.caption_column = options.caption_column;
  folder_options.default_caption = options.default_caption;
  DPIPE_ASSIGN_OR_RETURN(FolderDataset dataset, FolderDataset::Open(path, folder_options));
  return std::make_unique<FolderDataset>(std::move(dataset));
}

}  // namespace dpipe
