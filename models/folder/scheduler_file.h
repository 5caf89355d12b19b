// The scheduler_config.json of a folder in diffusers layout, as a run uses and saves it.
#ifndef DPIPE_MODELS_FOLDER_SCHEDULER_FILE_H_
#define DPIPE_MODELS_FOLDER_SCHEDULER_FILE_H_

#include <optional>
#include <string>

#include "core/base/status.h"
#include "models/diffusion/flow_schedule.h"
#include "models/diffusion/noise_schedule.h"
#include "models/folder/pipeline_folder.h"

namespace dpipe::models {

// Overrides of the folder's scheduler_config.json, for a run with another objective.
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

struct SchedulerFile {
  std::string path;            // in the folder, for messages
  std::string json;            // with the class of the index, and with the run's changes
  bool changes_index = false;  // its class may be another than in the folder's index
  std::string note;            // a sentence for the user, or ""
};

// Reads scheduler/scheduler_config.json. The note says so if the file and the index name different
// classes; diffusers uses the index. Returns InvalidArgument if there are changes to a scheduler of
// flow matching, which has neither property.
absl::StatusOr<SchedulerFile> ReadSchedulerFile(const PipelineFolder& folder,
                                                const SchedulerChanges& changes);

// Parses the file as a noise schedule that fits its prediction type. Errors name the file.
absl::StatusOr<diffusion::NoiseScheduleOptions> NoiseScheduleOf(const SchedulerFile& file);

// Parses the file as a schedule of flow matching. Errors name the file.
absl::StatusOr<diffusion::FlowSchedule> FlowScheduleOf(const SchedulerFile& file);

// Writes the scheduler into a `folder` with an index, and its class into the index.
absl::Status WriteSchedulerFile(const SchedulerFile& file, const std::string& folder);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FOLDER_SCHEDULER_FILE_H_
