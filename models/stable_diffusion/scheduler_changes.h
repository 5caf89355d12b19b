// The scheduler's files of a folder in diffusers layout, as a run with another objective has them.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_SCHEDULER_CHANGES_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_SCHEDULER_CHANGES_H_

#include <optional>
#include <string>

#include "models/diffusion/noise_schedule.h"

namespace dpipe::models {

// Instead of what the folder's scheduler_config.json says.
struct SchedulerChanges {
  std::optional<diffusion::PredictionType> prediction_type;
  std::optional<bool> zero_terminal_snr;
};

// The text of scheduler_config.json with the changes; without any, or where it is no JSON object,
// the text as it is. A scheduler that does not know rescale_betas_zero_snr, such as version 1's
// PNDMScheduler, would draw by the schedule as it was: where that is turned on, DDIMScheduler takes
// its place, with the timestep spacing that visits the last timestep (arXiv 2305.08891, section
// 3.3).
std::string ChangedSchedulerConfig(const std::string& scheduler_config,
                                   const SchedulerChanges& changes);

// The class that a scheduler_config.json names; empty: none.
std::string SchedulerClassOf(const std::string& scheduler_config);

// The text of scheduler_config.json as that of this class, which model_index.json names: diffusers
// goes by the index. Empty: by the config itself. As it is if it names that class, or is no JSON
// object.
std::string SchedulerConfigOfClass(const std::string& scheduler_config,
                                   const std::string& class_name);

// The text of model_index.json with the class of this scheduler_config.json, which diffusers would
// otherwise make a scheduler of the class that the index names. As it is where either is no JSON
// object, or the config names no class.
std::string WithSchedulerClass(const std::string& model_index, const std::string& scheduler_config);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_SCHEDULER_CHANGES_H_
