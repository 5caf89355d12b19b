#include "models/folder/scheduler_file.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"

namespace dpipe::models {
namespace {

using Json = nlohmann::ordered_json;

// Schedulers for pictures in diffusers 0.42.1 with the key rescale_betas_zero_snr.
constexpr const char* kSupportZeroTerminalSnr[] = {
    "DDIMScheduler",
    "DDIMParallelScheduler",
    "DDPMScheduler",
    "DDPMParallelScheduler",
    "DPMSolverMultistepScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "LCMScheduler",
    "TCDScheduler",
    "UniPCMultistepScheduler",
};

// Returns null if the text is not a JSON object.
Json Parse(const std::string& text) {
  auto json = ParseJsonObject<Json>(text, "");
  return json.ok() ? *std::move(json) : Json();
}

std::string ClassOf(const Json& config) {
  const auto found = config.find("_class_name");
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

bool SupportsZeroTerminalSnr(const std::string& name) {
  return std::find(std::begin(kSupportZeroTerminalSnr), std::end(kSupportZeroTerminalSnr), name) !=
         std::end(kSupportZeroTerminalSnr);
}

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

std::string ChangedSchedulerConfig(const std::string& scheduler_config,
                                   const SchedulerChanges& changes) {
  if (!changes.prediction_type.has_value() && !changes.zero_terminal_snr.has_value()) {
    return scheduler_config;
  }
  Json json = Parse(scheduler_config);
  if (!json.is_object()) return scheduler_config;
  if (changes.prediction_type.has_value()) {
    json["prediction_type"] = diffusion::PredictionTypeName(*changes.prediction_type);
  }
  if (changes.zero_terminal_snr.has_value()) {
    json["rescale_betas_zero_snr"] = *changes.zero_terminal_snr;
    if (*changes.zero_terminal_snr && !SupportsZeroTerminalSnr(ClassOf(json))) {
      json["_class_name"] = "DDIMScheduler";
      json["timestep_spacing"] = "trailing";
      json["clip_sample"] = false;  // some pipelines would treat a missing key as true
    }
  }
  return JsonText(json, /*indent=*/2) + "\n";
}

std::string SchedulerClassOf(const std::string& scheduler_config) {
  return ClassOf(Parse(scheduler_config));
}

std::string SchedulerConfigOfClass(const std::string& scheduler_config,
                                   const std::string& class_name) {
  Json json = Parse(scheduler_config);
  if (!json.is_object() || class_name.empty() || ClassOf(json) == class_name) {
    return scheduler_config;
  }
  json["_class_name"] = class_name;
  return JsonText(json, /*indent=*/2) + "\n";
}

std::string WithSchedulerClass(const std::string& model_index,
                               const std::string& scheduler_config) {
  Json index = Parse(model_index);
  const Json scheduler = Parse(scheduler_config);
  if (!index.is_object() || !scheduler.is_object() || ClassOf(scheduler).empty()) {
    return model_index;
  }
  index["scheduler"] = Json::array({"diffusers", ClassOf(scheduler)});
  return JsonText(index, /*indent=*/2) + "\n";
}

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
