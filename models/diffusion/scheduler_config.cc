#include "models/diffusion/scheduler_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"
#include "models/diffusion/noise_schedule.h"
#include "nlohmann/json.hpp"

namespace dpipe::diffusion {
namespace {

// Schedulers of diffusers 0.35.1 and 0.42.1 that are defined by betas and draw pictures from noise.
constexpr const char* kBetaSchedulers[] = {
    "DDIMParallelScheduler",
    "DDIMScheduler",
    "DDPMParallelScheduler",
    "DDPMScheduler",
    "DEISMultistepScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSDEScheduler",
    "DPMSolverSinglestepScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "KDPM2AncestralDiscreteScheduler",
    "KDPM2DiscreteScheduler",
    "LCMScheduler",
    "LMSDiscreteScheduler",
    "PNDMScheduler",
    "SASolverScheduler",
    "TCDScheduler",
    "UniPCMultistepScheduler",
};

using Json = nlohmann::json;

absl::Status WrongValue(absl::string_view key, const Json& value, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("scheduler_config.json: ", key, " is ",
                                                 ShowJson(value), "; expected ", expected));
}

// Returns the value of `key`, or null if the key is missing.
const Json& Find(const Json& config, const char* key) {
  static const Json* const kNull = new Json();
  const auto found = config.find(key);
  return found == config.end() ? *kNull : *found;
}

// Each Read leaves `target` unchanged if the key is missing or null.
absl::Status Read(const Json& config, const char* key, bool* target) {
  const Json& value = Find(config, key);
  if (value.is_null()) return absl::OkStatus();
  if (!value.is_boolean()) return WrongValue(key, value, "true or false");
  *target = value.get<bool>();
  return absl::OkStatus();
}

absl::Status Read(const Json& config, const char* key, int* target) {
  constexpr int kMaxInteger = 1000000;
  const Json& value = Find(config, key);
  if (value.is_null()) return absl::OkStatus();
  if (!value.is_number_integer() || value < 0 || value > kMaxInteger) {
    return WrongValue(key, value, absl::StrCat("an integer from 0 to ", kMaxInteger));
  }
  *target = value.get<int>();
  return absl::OkStatus();
}

absl::Status Read(const Json& config, const char* key, double* target) {
  const Json& value = Find(config, key);
  if (value.is_null()) return absl::OkStatus();
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    return WrongValue(key, value, "a finite number");
  }
  *target = value.get<double>();
  return absl::OkStatus();
}

template <typename Enum>
using Names = std::initializer_list<std::pair<const char*, Enum>>;

constexpr Names<PredictionType> kPredictionTypes = {{"epsilon", PredictionType::kEpsilon},
                                                    {"v_prediction", PredictionType::kV},
                                                    {"sample", PredictionType::kSample}};

template <typename Enum>
absl::Status Read(const Json& config, const char* key, Names<Enum> names, Enum* target) {
  const Json& value = Find(config, key);
  if (value.is_null()) return absl::OkStatus();
  std::string list;
  for (const auto& [name, result] : names) {
    if (value == name) {
      *target = result;
      return absl::OkStatus();
    }
    absl::StrAppend(&list, list.empty() ? "" : " or ", name);
  }
  return WrongValue(key, value, list);
}

absl::Status ReadSpacing(const Json& config, std::optional<TimestepSpacing>* spacing) {
  constexpr const char* kKey = "timestep_spacing";
  if (Find(config, kKey).is_null()) return absl::OkStatus();
  spacing->emplace();
  return Read(config, kKey,
              Names<TimestepSpacing>{{"leading", TimestepSpacing::kLeading},
                                     {"trailing", TimestepSpacing::kTrailing},
                                     {"linspace", TimestepSpacing::kLinspace}},
              &**spacing);
}

// Returns "" if there is none.
absl::StatusOr<std::string> ReadClass(const Json& config) {
  const Json& name = Find(config, "_class_name");
  if (name.is_null()) return "";
  if (!name.is_string()) return WrongValue("_class_name", name, "a string");
  const absl::Status known = CheckSchedulerClass(name.get<std::string>());
  if (known.ok()) return name.get<std::string>();
  return absl::Status(known.code(), absl::StrCat("scheduler_config.json: ", known.message()));
}

// Returns the class's defaults in diffusers for missing keys.
NoiseScheduleOptions DefaultsOf(const std::string& scheduler_class) {
  NoiseScheduleOptions o;
  o.steps_offset = 0;
  o.set_alpha_to_one = scheduler_class != "PNDMScheduler";
  o.clip_sample = scheduler_class != "LCMScheduler";
  if (scheduler_class == "LCMScheduler") return o;  // betas are Stable Diffusion's
  o.beta_start = 0.0001;
  o.beta_end = 0.02;
  o.beta_schedule = BetaSchedule::kLinear;
  return o;
}

// Rejects sampling rules that are not implemented; otherwise sampling would seem to work.
absl::Status RefuseUnsupported(const Json& config) {
  const Json& betas = Find(config, "trained_betas");
  if (!betas.is_null()) {
    return absl::InvalidArgumentError(
        "scheduler_config.json: trained_betas is given; expected null, betas come from "
        "beta_schedule");
  }
  for (const char* key : {"thresholding", "use_flow_sigmas"}) {
    bool wanted = false;
    DPIPE_RETURN_IF_ERROR(Read(config, key, &wanted));
    if (wanted) return WrongValue(key, true, "false");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSchedulerClass(absl::string_view class_name) {
  if (std::find(std::begin(kBetaSchedulers), std::end(kBetaSchedulers), class_name) !=
      std::end(kBetaSchedulers)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the scheduler is a ", ShowText(class_name),
      ", which is not a known scheduler of a diffusion process with betas; supported are "
      "DDIMScheduler, PNDMScheduler, DPMSolverMultistepScheduler and similar ones"));
}

const char* PredictionTypeName(PredictionType type) {
  for (const auto& [name, named] : kPredictionTypes) {
    if (named == type) return name;
  }
  return "unknown";
}

absl::StatusOr<PredictionType> ParsePredictionType(absl::string_view name) {
  for (const auto& [known, type] : kPredictionTypes) {
    if (name == known) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown prediction type '", name,
                                                 "'; there are epsilon, v_prediction and sample"));
}

absl::StatusOr<NoiseScheduleOptions> ParseSchedulerConfig(absl::string_view json) {
  DPIPE_ASSIGN_OR_RETURN(const Json config, ParseJsonObject(json, "scheduler_config.json"));
  DPIPE_ASSIGN_OR_RETURN(const std::string scheduler_class, ReadClass(config));
  NoiseScheduleOptions o = DefaultsOf(scheduler_class);
  o.scheduler_class = scheduler_class;
  o.json = std::string(json);
  DPIPE_RETURN_IF_ERROR(RefuseUnsupported(config));
  DPIPE_RETURN_IF_ERROR(Read(config, "num_train_timesteps", &o.num_train_timesteps));
  DPIPE_RETURN_IF_ERROR(Read(config, "beta_start", &o.beta_start));
  DPIPE_RETURN_IF_ERROR(Read(config, "beta_end", &o.beta_end));
  DPIPE_RETURN_IF_ERROR(
      Read(config, "beta_schedule",
           Names<BetaSchedule>{{"linear", BetaSchedule::kLinear},
                               {"scaled_linear", BetaSchedule::kScaledLinear},
                               {"squaredcos_cap_v2", BetaSchedule::kSquaredCosCapV2}},
           &o.beta_schedule));
  DPIPE_RETURN_IF_ERROR(Read(config, "prediction_type", kPredictionTypes, &o.prediction_type));
  DPIPE_RETURN_IF_ERROR(ReadSpacing(config, &o.timestep_spacing));
  DPIPE_RETURN_IF_ERROR(Read(config, "use_karras_sigmas", &o.use_karras_sigmas));
  DPIPE_RETURN_IF_ERROR(Read(config, "rescale_betas_zero_snr", &o.rescale_zero_terminal_snr));
  DPIPE_RETURN_IF_ERROR(Read(config, "steps_offset", &o.steps_offset));
  DPIPE_RETURN_IF_ERROR(Read(config, "set_alpha_to_one", &o.set_alpha_to_one));
  DPIPE_RETURN_IF_ERROR(Read(config, "clip_sample", &o.clip_sample));
  DPIPE_RETURN_IF_ERROR(Read(config, "clip_sample_range", &o.clip_sample_range));
  return o;
}

}  // namespace dpipe::diffusion
