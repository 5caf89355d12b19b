// Any data set by its name, as a person writes it.
#ifndef DPIPE_DATA_OPEN_SAMPLES_H_
#define DPIPE_DATA_OPEN_SAMPLES_H_

#include <memory>
#include <string>

#include "core/base/status.h"
#include "data/sample_source.h"

namespace dpipe {

struct OpenSamplesOptions {
  // The column or JSON field that has the caption; empty: "text" or "caption".
  std::string caption_column;
};

// "shards-{00..99}.tar" and the like: a TarDataset. A folder: a FolderDataset, or, if it has no
// metadata.jsonl but .tar files, a TarDataset of those. Errors are theirs.
absl::StatusOr<std::unique_ptr<SampleSource>> OpenSamples(const std::string& where,
                                                          const OpenSamplesOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_DATA_OPEN_SAMPLES_H_
