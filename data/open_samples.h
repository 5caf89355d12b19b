// Opens any data set by the name that the user gave.
#ifndef DPIPE_DATA_OPEN_SAMPLES_H_
#define DPIPE_DATA_OPEN_SAMPLES_H_

#include <memory>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "data/sample_source.h"

namespace dpipe {

struct OpenSamplesOptions {
  // The column with the images' file names. Empty: "file_name". Not for shards.
  std::string file_column;
  // The column or JSON field with the caption. Empty: "text" or "caption".
  std::string caption_column;
  // The caption of images without one. If it is not set, such images are errors in folders and are
  // skipped in shards.
  std::optional<std::string> default_caption;
};

// Opens a file, or a pattern like "shards-{00..99}.tar", as a TarDataset, and a folder as a
// FolderDataset. A folder with .tar files and neither metadata.jsonl nor metadata.csv is opened as
// a TarDataset of these files, with a note if it also contains images. Returns their errors.
absl::StatusOr<std::unique_ptr<SampleSource>> OpenSamples(const std::string& path,
                                                          const OpenSamplesOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_DATA_OPEN_SAMPLES_H_
