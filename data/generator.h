// Writes the built-in data set: a folder of scene images with `metadata.jsonl`.
//
// Layout: 00000.png, 00001.png, ... (every eighth a JPEG, so that both readers are exercised),
// `metadata.jsonl` with one line {"file_name": ..., "text": ...} an image in index order, on
// request the outlines as conditioning/00000.png, ... with their column "conditioning_image", and
// `dataset.json`, the manifest: what was asked for, and whether the folder is complete. The
// manifest comes first as incomplete and last as complete, so an interrupted folder is recognised
// and finished.
#ifndef DPIPE_DATA_GENERATOR_H_
#define DPIPE_DATA_GENERATOR_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/status.h"

namespace dpipe {

struct BuiltInDatasetOptions {
  int count = 4096;
  uint64_t seed = 1;
  int image_size = 64;  // pixels a side, of the shorter one, at least 16
  // Of the longer side to the shorter, drawn for each image between 1 and this: some are wide, some
  // high. The scene is in the middle, and its background goes on.
  double max_aspect = 1;
  // Whether to write outlines (RenderSceneEdges) too, for models with a condition picture.
  bool with_conditions = false;
  // Called with (images present, count) now and then, and at the end; may be empty.
  std::function<void(int, int)> progress;
};

// Makes the data set in `folder` unless it is already there, complete, with the same options.
//
// Files are written whole or not at all and depend on the options only, so several processes may do
// this at once. InvalidArgument for impossible options; FailedPrecondition, and nothing is touched,
// if the folder holds a data set with other options, or files but no manifest.
absl::Status EnsureBuiltInDataset(const std::string& folder, const BuiltInDatasetOptions& options);

}  // namespace dpipe

#endif  // DPIPE_DATA_GENERATOR_H_
