#include "data/open_samples.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "data/folder_dataset.h"
#include "data/shard_pattern.h"
#include "data/tar_dataset.h"

namespace dpipe {

absl::StatusOr<std::unique_ptr<SampleSource>> OpenSamples(const std::string& where,
                                                          const OpenSamplesOptions& options) {
  std::string pattern = absl::EndsWith(where, ".tar") ? where : "";
  const bool has_metadata = access(absl::StrCat(where, "/metadata.jsonl").c_str(), F_OK) == 0;
  if (pattern.empty() && !has_metadata) {
    const std::string shards = absl::StrCat(where, "/*.tar");
    if (FindShards(shards).ok()) pattern = shards;
  }
  if (!pattern.empty()) {
    TarDatasetOptions tar_options;
    tar_options.caption_column = options.caption_column;
    return TarDataset::Open(pattern, tar_options);
  }
  FolderDatasetOptions folder_options;
  folder_options.caption_column = options.caption_column;
  DPIPE_ASSIGN_OR_RETURN(FolderDataset dataset, FolderDataset::Open(where, folder_options));
  return std::make_unique<FolderDataset>(std::move(dataset));
}

}  // namespace dpipe
