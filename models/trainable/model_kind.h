// A kind of model: how it is recognised by its folder, and loaded. Each kind describes itself in
// its own package, and load.cc lists them.
#ifndef DPIPE_MODELS_TRAINABLE_MODEL_KIND_H_
#define DPIPE_MODELS_TRAINABLE_MODEL_KIND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/folder/load_options.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

struct ModelKind {
  std::string name;  // "stable_diffusion"
  // Values of _class_name in model_index.json from which it is loaded. A folder of the first class
  // is of this kind unless the user requests another.
  std::vector<std::string> classes;
  // True if its models take a condition picture with each sample. Needed before a model is loaded,
  // to choose the data.
  bool wants_conditions = false;
  bool is_latent = false;       // its models are TrainableLatentModels (models/latent/trainable.h)
  bool takes_adapters = false;  // low-rank adapters can be trained and drawn with
  // Returns an error if the folder's model can be drawn with, but not trained. Null: it can.
  std::function<absl::Status(const std::string& folder)> check_training;
  std::function<absl::StatusOr<std::unique_ptr<TrainableModel>>(const std::string& folder,
                                                                const LoadModelOptions& options)>
      load;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_MODEL_KIND_H_
