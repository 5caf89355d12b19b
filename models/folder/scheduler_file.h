// The scheduler_config.json of a folder in diffusers layout, as a run uses and saves it.
#ifndef DPIPE_MODELS_FOLDER_SCHEDULER_FILE_H_
#define DPIPE_MODELS_FOLDER_SCHEDULER_FILE_H_

#include <string>

#include "core/base/status.h"
#include "models/diffusion/flow_schedule.h"
#include "models/diffusion/noise_schedule.h"
#include "models/folder/pipeline_folder.h"
#include "models/folder/scheduler_changes.h"

namespace dpipe::models {

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
