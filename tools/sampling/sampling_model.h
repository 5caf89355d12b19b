// Loads a model folder of any kind for drawing pictures.
#ifndef DPIPE_TOOLS_SAMPLING_SAMPLING_MODEL_H_
#define DPIPE_TOOLS_SAMPLING_SAMPLING_MODEL_H_

#include <functional>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "data/images/image.h"
#include "models/tokenizer/tokenizer.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::tools {

struct SamplingModel {
  std::unique_ptr<models::TrainableModel> model;
  models::NamedTensors parameters;
  const Tokenizer* tokenizer = nullptr;  // of the prompts; null if prompts are class names
};

struct SamplingModelOptions {
  bool with_control = false;  // use the ControlNet, with a condition picture per prompt
  int image_size = 0;         // as in LoadModelOptions
  // Low-rank adapters, as in LoadModelOptions. Not supported for cascades.
  std::string adapters_file;
  float adapters_scale = 1;
};

// Loads the model in `folder` and passes notes about it to `say`. Returns InvalidArgument if the
// folder's model class is not supported here, or if its kind does not support an option. Returns
// NotFound, with a command that trains one, if the folder has no weights.
absl::StatusOr<SamplingModel> LoadSamplingModel(const std::string& folder,
                                                const SamplingModelOptions& options,
                                                const std::function<void(const std::string&)>& say);

// Reads a picture as a condition of `size` x `size` pixels: resized until it covers them, and
// cropped about its centre, as training does with condition pictures.
absl::StatusOr<Image> ReadConditionPicture(const std::string& path, int size);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_SAMPLING_SAMPLING_MODEL_H_
