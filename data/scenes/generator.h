// Writes the built-in data set: a folder of scene images with `metadata.jsonl`.
//
// The folder contains:
// - the images 00000.png, 00001.png, ...; every eighth is a JPEG, so that both readers are
//   exercised;
// - `metadata.jsonl` with one line {"file_name": ..., "text": ...} per image, in index order;
// - on request, the outlines as conditioning/00000.png, ..., with the column "conditioning_image";
// - `dataset.json`, the manifest: the options, and a flag that says whether the folder is complete.
//
// The manifest is written first as incomplete and last as complete, so that an interrupted folder
// is recognised and finished.
#ifndef DPIPE_DATA_SCENES_GENERATOR_H_
#define DPIPE_DATA_SCENES_GENERATOR_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/status.h"

namespace dpipe {

struct BuiltInDatasetOptions {
  int count = 4096;
  uint64_t seed = 1;
  int image_size = 64;  // the shorter side in pixels, at least 16
  // The maximum ratio of the longer side to the shorter. The ratio is drawn for each image between
  // 1 and this, and the image is wide or high at random. The scene is in the middle, and its
  // background fills the rest.
  double max_aspect = 1;
  // Also writes outlines (RenderSceneEdges), for models with a condition picture.
  bool with_conditions = false;
  // Called with (images present, count) every 256 images and at the end. May be empty.
  std::function<void(int, int)> progress;
};

// Makes the data set in `folder` unless it is already there, complete, with the same options.
//
// Files are written whole or not at all and depend on the options only, so several processes may do
// this at once. Returns InvalidArgument for impossible options. Returns FailedPrecondition, without
// changing anything, if the folder contains a data set with other options, or files but no
// manifest.
absl::Status EnsureBuiltInDataset(const std::string& folder, const BuiltInDatasetOptions& options);

}  // namespace dpipe

#endif  // DPIPE_DATA_SCENES_GENERATOR_H_
