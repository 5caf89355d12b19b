// Changes that a run makes to the model in a folder.
#ifndef DPIPE_MODELS_FOLDER_LOAD_OPTIONS_H_
#define DPIPE_MODELS_FOLDER_LOAD_OPTIONS_H_

#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "models/diffusion/flow_matching.h"
#include "models/diffusion/noise_schedule.h"
#include "models/lora/lora.h"

namespace dpipe::models {

// Kinds ignore options that only others use.
struct LoadModelOptions {
  std::string kind;             // a ModelKind's name; empty selects it by the folder
  int image_size = 0;           // pixels per side; 0 selects the size in the folder's configuration
  int max_sequence_length = 0;  // tokens of a text for T5; 0 selects the model's usual number
  double min_snr_gamma = 0;     // 0 weights all timesteps equally
  // For models of flow matching: the density from which training draws noise levels, empty for the
  // family's own; its parameters; and the weights of losses.
  std::optional<diffusion::FlowDensity> flow_density;
  diffusion::FlowSamplingOptions flow_sampling;
  diffusion::FlowWeight flow_weight = diffusion::FlowWeight::kOne;
  // Override the folder's scheduler configuration.
  std::optional<diffusion::PredictionType> prediction_type;
  std::optional<bool> zero_terminal_snr;
  // With a rank > 0, only low-rank adapters are trained: of lora.targets or, if there are none, of
  // the attentions (transformers: also of feed-forward networks).
  nn::LoraSpec lora = {};
  LoraFormat lora_format = LoraFormat::kDiffusers;  // format of the file to which they are saved
  // A file of low-rank adapters, or a folder with one (FindLoraFile). Empty selects the folder's
  // own file (kLoraFile), if there is one. Adapters that are merged into the weights are scaled by
  // `adapters_scale`.
  std::string adapters_file;
  float adapters_scale = 1;
  // Backbones take their own estimate as additional input channels. A folder that was saved with
  // them keeps them; for any other folder, the weights of the new channels start at zero.
  bool self_conditioning = false;
  // Backbones take each pixel's position in the picture as two additional input channels, as needed
  // for training on patches. As with self_conditioning, a folder keeps them and new weights start
  // at zero. Not with self-conditioning.
  bool coordinates = false;
};

// Returns InvalidArgument with the folder and the option if one of flow matching is set, for a
// model that is trained on a noise schedule.
absl::Status CheckNoFlowOptions(const LoadModelOptions& options, const std::string& folder);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FOLDER_LOAD_OPTIONS_H_
