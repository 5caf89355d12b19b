#include "models/folder/scheduler_changes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/text/json.h"

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

}  // namespace dpipe::models
