// A model folder to draw pictures with, of whatever kind it is.
#ifndef DPIPE_TOOLS_DRAWN_MODEL_H_
#define DPIPE_TOOLS_DRAWN_MODEL_H_

#include <functional>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "data/image.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::tools {

struct DrawnModel {
  std::unique_ptr<models::TrainableModel> model;
  models::NamedTensors parameters;
  const ClipTokenizer* tokenizer = nullptr;  // of the prompts; null if they name classes
};

struct DrawnModelOptions {
  bool with_control = false;  // by its ControlNet, with a condition picture for each prompt
  // Low-rank adapters, as StableDiffusionOptions has them. Not for cascades.
  std::string adapters_file;
  float adapters_scale = 1;
};

// Loads what is in `folder`, whose class is one that can be trained here. What is noteworthy about
// it is passed to `say`. InvalidArgument for other classes, and for options that the kind of model
// does not have; NotFound, with the command that trains one, for a folder without weights.
absl::StatusOr<DrawnModel> LoadDrawnModel(const std::string& folder,
                                          const DrawnModelOptions& options,
                                          const std::function<void(const std::string&)>& say);

// Reads a picture as a condition of `size` x `size` pixels: resized until it covers them, and
// cropped about its centre, as training does with condition pictures.
absl::StatusOr<Image> ReadConditionPicture(const std::string& path, int size);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_DRAWN_MODEL_H_
