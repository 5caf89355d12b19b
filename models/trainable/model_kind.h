// How a kind of model is told from its folder, and loaded: each kind describes itself in its own
// package, and load.cc lists them.
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

// What a run changes about a model's folder. Kinds add what only they read.
struct LoadModelOptions {
  std::string kind;          // a ModelKind's name; empty: what the folder says that it is
  int image_size = 0;        // pixels a side; 0: what the folder's configs were made for
  double min_snr_gamma = 0;  // 0: all timesteps weigh the same
  // Instead of what the folder's scheduler config says.
  std::optional<diffusion::PredictionType> prediction_type;
  std::optional<bool> zero_terminal_snr;
  // With a rank: only low-rank adapters of the attentions are trained. Of Stable Diffusion.
  nn::LoraSpec lora = {};
  LoraFormat lora_format = LoraFormat::kDiffusers;  // of the file that they are saved to
  // Backbones take their own estimate as further input channels. A folder that was saved so stays
  // so; of another, the weights of the new channels start at zero.
  bool self_conditioning = false;
  // Backbones take each pixel's place in the picture as two further input channels, likewise: what
  // training on patches wants. Of Stable Diffusion; not with self-conditioning.
  bool coordinates = false;
};

struct ModelKind {
  std::string name;  // "stable_diffusion"
  // The classes in model_index.json that it is loaded from. A folder of the first one is of this
  // kind unless the user asks for another.
  std::vector<std::string> classes;
  // Whether its models take a condition picture with each sample: which data to look for is asked
  // before a model is loaded.
  bool wants_conditions = false;
  std::function<absl::StatusOr<std::unique_ptr<TrainableModel>>(const std::string& folder,
                                                                const LoadModelOptions& options)>
      load;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_MODEL_KIND_H_
