#include "models/diffusion/flow_schedule.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text/json.h"
#include "models/config/component_config.h"
#include "nlohmann/json.hpp"

namespace dpipe::diffusion {
namespace {

using TimeShift = FlowScheduleOptions::TimeShift;

}  // namespace

absl::StatusOr<FlowScheduleOptions> ParseFlowScheduleConfig(absl::string_view json) {
  DPIPE_ASSIGN_OR_RETURN(
      models::ComponentConfig config,
      models::ComponentConfig::Parse(std::string(json), "scheduler_config.json"));
  DPIPE_RETURN_IF_ERROR(config.CheckKind("_class_name", kFlowSchedulerClass));
  FlowScheduleOptions o;
  o.json = std::string(json);
  o.num_train_timesteps = static_cast<int>(config.PositiveInt("num_train_timesteps", 1000));
  o.shift = config.Number("shift", o.shift);
  o.use_dynamic_shifting = config.Bool("use_dynamic_shifting", false);
  o.base_shift = config.Number("base_shift", o.base_shift);
  o.max_shift = config.Number("max_shift", o.max_shift);
  o.base_image_seq_len = static_cast<int>(config.PositiveInt("base_image_seq_len", 256));
  o.max_image_seq_len = static_cast<int>(config.PositiveInt("max_image_seq_len", 4096));
  const std::string type = config.String("time_shift_type", "exponential");
  if (type == "linear") {
    o.time_shift_type = TimeShift::kLinear;
  } else if (type != "exponential") {
    config.AddProblem("time_shift_type", "supported: \"exponential\", \"linear\"");
  }
  const double terminal = config.Number("shift_terminal", 0);
  if (terminal != 0) o.shift_terminal = terminal;  // diffusers ignores 0
  for (const char* key : {"invert_sigmas", "use_karras_sigmas", "use_exponential_sigmas",
                          "use_beta_sigmas", "stochastic_sampling"}) {
    config.Expect(key, {"false", "null"});
  }
  DPIPE_RETURN_IF_ERROR(config.status());
  return o;
}

std::string FlowScheduleConfigText(const FlowScheduleOptions& o) {
  const auto parsed = ParseJsonObject(o.json, "scheduler_config.json");
  nlohmann::json config = parsed.ok() ? *parsed : nlohmann::json::object();  // sorts its keys
  config["_class_name"] = kFlowSchedulerClass;
  config["num_train_timesteps"] = o.num_train_timesteps;
  config["shift"] = o.shift;
  config["use_dynamic_shifting"] = o.use_dynamic_shifting;
  config["base_shift"] = o.base_shift;
  config["max_shift"] = o.max_shift;
  config["base_image_seq_len"] = o.base_image_seq_len;
  config["max_image_seq_len"] = o.max_image_seq_len;
  config["time_shift_type"] = o.time_shift_type == TimeShift::kLinear ? "linear" : "exponential";
  config["shift_terminal"] = nullptr;
  if (o.shift_terminal.has_value()) config["shift_terminal"] = *o.shift_terminal;
  for (const char* key : {"invert_sigmas", "use_karras_sigmas", "use_exponential_sigmas",
                          "use_beta_sigmas", "stochastic_sampling"}) {
    config[key] = false;
  }
  return JsonText(nlohmann::ordered_json(config), 2) + "\n";
}

double ShiftLevel(double shift, double level) { return shift * level / (1 + (shift - 1) * level); }

absl::StatusOr<FlowSchedule> FlowSchedule::Create(const FlowScheduleOptions& o) {
  if (o.num_train_timesteps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_train_timesteps is ", o.num_train_timesteps, "; use at least 1"));
  }
  if (!(o.shift > 0) || !std::isfinite(o.shift)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shift is ", o.shift, "; expected a number above 0"));
  }
  if (o.base_image_seq_len >= o.max_image_seq_len) {
    return absl::InvalidArgumentError(absl::StrCat("base_image_seq_len is ", o.base_image_seq_len,
                                                   "; expected less than max_image_seq_len, ",
                                                   o.max_image_seq_len));
  }
  if (o.shift_terminal.has_value() && !(*o.shift_terminal > 0 && *o.shift_terminal < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("shift_terminal is ", *o.shift_terminal,
                                                   "; expected a number between 0 and 1"));
  }
  return FlowSchedule(o);
}

FlowSchedule::FlowSchedule(const FlowScheduleOptions& options) : options_(options) {
  const int count = options_.num_train_timesteps;
  for (int i = 0; i < count; ++i) {
    const double level = static_cast<double>(count - i) / count;
    train_levels_.push_back(options_.use_dynamic_shifting ? level
                                                          : ShiftLevel(options_.shift, level));
  }
}

double FlowSchedule::Mu(int64_t image_tokens) const {
  const FlowScheduleOptions& o = options_;
  const double slope = (o.max_shift - o.base_shift) / (o.max_image_seq_len - o.base_image_seq_len);
  return o.base_shift + slope * static_cast<double>(image_tokens - o.base_image_seq_len);
}

absl::StatusOr<std::vector<double>> FlowSchedule::SamplingLevels(int num_steps, Spacing spacing,
                                                                 std::optional<double> mu) const {
  if (num_steps < 1) {
    return absl::InvalidArgumentError(absl::StrCat(num_steps, " steps; use at least 1"));
  }
  if (mu.has_value() != options_.use_dynamic_shifting) {
    return absl::InvalidArgumentError(
        mu.has_value() ? "mu is given, but the scheduler does not shift dynamically"
                       : "the scheduler shifts dynamically and needs mu");
  }
  double shift = options_.shift;
  if (mu.has_value()) {
    shift = options_.time_shift_type == TimeShift::kLinear ? *mu : std::exp(*mu);
    if (!(shift > 0) || !std::isfinite(shift)) {
      return absl::InvalidArgumentError(
          absl::StrCat("mu ", *mu, " gives a shift of ", shift, "; expected a number above 0"));
    }
  }
  const double first = spacing == Spacing::kFull ? 1 : train_levels_.front();
  const double last = spacing == Spacing::kFull ? 1.0 / num_steps : train_levels_.back();
  std::vector<double> levels;
  for (int i = 0; i < num_steps; ++i) {
    const double share = num_steps == 1 ? 0 : static_cast<double>(i) / (num_steps - 1);
    levels.push_back(ShiftLevel(shift, first + share * (last - first)));
  }
  if (options_.shift_terminal.has_value()) {
    const double last_share = 1 - levels.back();
    if (last_share <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          num_steps, " steps end at level 1, which cannot be stretched to shift_terminal"));
    }
    const double factor = last_share / (1 - *options_.shift_terminal);
    for (double& level : levels) level = 1 - (1 - level) / factor;
  }
  levels.push_back(0);
  return levels;
}

}  // namespace dpipe::diffusion
