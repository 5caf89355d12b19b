// Edits the scheduler's files of a folder in diffusers layout for a run with another objective.
#ifndef DPIPE_MODELS_FOLDER_SCHEDULER_CHANGES_H_
#define DPIPE_MODELS_FOLDER_SCHEDULER_CHANGES_H_

#include <optional>
#include <string>

#include "models/diffusion/noise_schedule.h"

namespace dpipe::models {

// Overrides of the folder's scheduler_config.json.
struct SchedulerChanges {
  std::optional<diffusion::PredictionType> prediction_type;
  std::optional<bool> zero_terminal_snr;
};

// Returns the text of scheduler_config.json with the changes. Returns it unchanged if there are
// none or it is not a JSON object. A scheduler without rescale_betas_zero_snr, such as version 1's
// PNDMScheduler, would draw with the original schedule. If that key is turned on, DDIMScheduler
// replaces it, with the timestep spacing that visits the last timestep (arXiv 2305.08891, section
// 3.3).
std::string ChangedSchedulerConfig(const std::string& scheduler_config,
                                   const SchedulerChanges& changes);

// Returns the class that a scheduler_config.json names, or "" if there is none.
std::string SchedulerClassOf(const std::string& scheduler_config);

// Returns the text of scheduler_config.json with the class that model_index.json names, because
// diffusers uses the index. Returns it unchanged if `class_name` is empty or already its class, or
// if the text is not a JSON object.
std::string SchedulerConfigOfClass(const std::string& scheduler_config,
                                   const std::string& class_name);

// Returns the text of model_index.json with the class of this scheduler_config.json; diffusers
// makes a scheduler of the class in the index. Returns it unchanged if either is not a JSON object,
// or if the configuration names no class.
std::string WithSchedulerClass(const std::string& model_index, const std::string& scheduler_config);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FOLDER_SCHEDULER_CHANGES_H_
