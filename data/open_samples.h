// Any data set by its name, as a person writes it.
#ifndef DPIPE_DATA_OPEN_SAMPLES_H_
#define DPIPE_DATA_OPEN_SAMPLES_H_

#include <memory>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "data/sample_source.h"

namespace dpipe {

struct OpenSamplesOptions {
  // The column that has the images' file names; empty: "file_name". Shards have none.
  std::string file_column;
  // The column or JSON field that has the caption; empty: "text" or "caption".
  std::string caption_column;
  // Of images that have none; without it they are errors, or, in shards, skipped.
  std::optional<std::string> default_caption;
};

// A file, "shards-{00..99}.tar" and the like: a TarDataset. A folder: a FolderDataset, or, if it
// has no metadata.jsonl nor metadata.csv but .tar files, a TarDataset of those, with a note if
// there are images beside them. Errors are theirs.
absl::StatusOr<std::unique_ptr<SampleSource>> OpenSamples(const std::string& where,
                                                          const OpenSamplesOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_DATA_OPEN_SAMPLES_H_
