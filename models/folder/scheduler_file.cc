#include "models/folder/scheduler_file.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/text/show.h"

namespace dpipe::models {
namespace {

constexpr char kSchedulerFile[] = "/scheduler/scheduler_config.json";

std::string NoteAboutClasses(const std::string& folder, const std::string& of_config,
                             const std::string& of_index) {
  if (of_config.empty() || of_index.empty() || of_config == of_index) return "";
  return absl::StrCat(folder, ": the scheduler is a ", ShowText(of_index),
                      " according to model_index.json (which is used, as in diffusers), but a ",
                      ShowText(of_config), " according to scheduler/scheduler_config.json");
}

absl::Status WithPath(const SchedulerFile& file, const absl::Status& error) {
  return absl::Status(error.code(), absl::StrCat(file.path, ": ", error.message()));
}

absl::Status CheckChanges(const SchedulerFile& file, const SchedulerChanges& changes) {
  const bool changes_something =
      changes.prediction_type.has_value() || changes.zero_terminal_snr.has_value();
  if (!changes_something || SchedulerClassOf(file.json) != diffusion::kFlowSchedulerClass) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(file.path, ": the scheduler is a ", diffusion::kFlowSchedulerClass,
                   ", which has no prediction type and no terminal SNR; leave out the options "
                   "prediction_type and zero_terminal_snr"));
}

}  // namespace

absl::StatusOr<SchedulerFile> ReadSchedulerFile(const PipelineFolder& folder,
                                                const SchedulerChanges& changes) {
  SchedulerFile file;
  file.path = folder.path() + kSchedulerFile;
  DPIPE_ASSIGN_OR_RETURN(const std::string json, ReadFile(file.path));
  const std::string& of_index = folder.index().scheduler_class;
  file.note = NoteAboutClasses(folder.path(), SchedulerClassOf(json), of_index);
  file.json = SchedulerConfigOfClass(json, of_index);
  DPIPE_RETURN_IF_ERROR(CheckChanges(file, changes));
  file.json = ChangedSchedulerConfig(file.json, changes);
  file.changes_index = changes.zero_terminal_snr.value_or(false);
  return file;
}

absl::StatusOr<diffusion::NoiseScheduleOptions> NoiseScheduleOf(const SchedulerFile& file) {
  auto options = diffusion::ParseSchedulerConfig(file.json);
  const absl::Status fits = options.ok() ? diffusion::CheckPrediction(*options) : options.status();
  if (fits.ok()) return options;
  return WithPath(file, fits);
}

absl::StatusOr<diffusion::FlowSchedule> FlowScheduleOf(const SchedulerFile& file) {
  const auto options = diffusion::ParseFlowScheduleConfig(file.json);
  if (!options.ok()) return WithPath(file, options.status());
  auto schedule = diffusion::FlowSchedule::Create(*options);
  if (!schedule.ok()) return WithPath(file, schedule.status());
  return schedule;
}

absl::Status WriteSchedulerFile(const SchedulerFile& file, const std::string& folder) {
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + kSchedulerFile, file.json));
  if (!file.changes_index) return absl::OkStatus();
  const std::string index_path = folder + "/model_index.json";
  DPIPE_ASSIGN_OR_RETURN(const std::string index, ReadFile(index_path));
  return WriteFileAtomically(index_path, WithSchedulerClass(index, file.json));
}

}  // namespace dpipe::models
