// A kind of model: how it is recognised by its folder, and loaded. Each kind describes itself in
// its own package, and load.cc lists them.
#ifndef DPIPE_MODELS_TRAINABLE_MODEL_KIND_H_
#define DPIPE_MODELS_TRAINABLE_MODEL_KIND_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "models/diffusion/noise_schedule.h"
#include "models/lora/lora.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Changes that a run makes to the model in a folder. Kinds add options that only they use.
struct LoadModelOptions {
  std::string kind;          // a ModelKind's name; empty selects it by the folder
  int image_size = 0;        // pixels per side; 0 selects the size in the folder's configuration
  double min_snr_gamma = 0;  // 0 weights all timesteps equally
  // Override the folder's scheduler configuration.
  std::optional<diffusion::PredictionType> prediction_type;
  std::optional<bool> zero_terminal_snr;
  // With a rank > 0, only low-rank adapters of the attentions are trained. Stable Diffusion only.
  nn::LoraSpec lora = {};
  LoraFormat lora_format = LoraFormat::kDiffusers;  // format of the file to which they are saved
  // Backbones take their own estimate as additional input channels. A folder that was saved with
  // them keeps them; for any other folder, the weights of the new channels start at zero.
  bool self_conditioning = false;
  // Backbones take each pixel's position in the picture as two additional input channels, as needed
  // for training on patches. As with self_conditioning, a folder keeps them and new weights start
  // at zero. Stable Diffusion only, and not with self-conditioning.
  bool coordinates = false;
};

struct ModelKind {
  std::string name;  // "stable_diffusion"
  // Values of _class_name in model_index.json from which it is loaded. A folder of the first class
  // is of this kind unless the user requests another.
  std::vector<std::string> classes;
  // True if its models take a condition picture with each sample. Needed before a model is loaded,
  // to choose the data.
  bool wants_conditions = false;
  std::function<absl::StatusOr<std::unique_ptr<TrainableModel>>(const std::string& folder,
                                                                const LoadModelOptions& options)>
      load;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_MODEL_KIND_H_
