// Flow matching (Lipman et al., arXiv 2210.02747; Esser et al., arXiv 2403.03206): straight paths
// from data to noise, as in Stable Diffusion 3 and FLUX.1.
//
//   x_s = (1 - s) x0 + s noise,   target: noise - x0,   model input: timestep 1000 s
//
// s is the noise level, sigma in diffusers. A shift moves levels towards noise, because larger
// images need more of it: s' = shift s / (1 + (shift - 1) s). A resolution-dependent ("dynamic")
// shift is exp(mu), with mu linear in the number of image tokens. Values are those of diffusers'
// FlowMatchEulerDiscreteScheduler, in double precision.
#ifndef DPIPE_MODELS_DIFFUSION_FLOW_SCHEDULE_H_
#define DPIPE_MODELS_DIFFUSION_FLOW_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::diffusion {

inline constexpr char kFlowSchedulerClass[] = "FlowMatchEulerDiscreteScheduler";

// The keys of a `scheduler_config.json` of this class, with diffusers' defaults. Karras,
// exponential and beta spacings, inverted levels and stochastic sampling are not supported.
struct FlowScheduleOptions {
  int num_train_timesteps = 1000;
  double shift = 1;  // of training, and of sampling unless the shift is dynamic
  bool use_dynamic_shifting = false;
  // mu at base_image_seq_len and at max_image_seq_len image tokens.
  double base_shift = 0.5, max_shift = 1.15;
  int base_image_seq_len = 256, max_image_seq_len = 4096;
  // kLinear: the dynamic shift is mu itself instead of exp(mu).
  enum class TimeShift { kExponential, kLinear } time_shift_type = TimeShift::kExponential;
  // If set, levels of sampling are stretched so that the last one is this.
  std::optional<double> shift_terminal;
  std::string json = "{}";  // the file's text
};

// Parses the text of a `scheduler_config.json`. Returns InvalidArgument with up to five problems if
// it is not JSON, of another class, or has values that are wrong or not supported.
absl::StatusOr<FlowScheduleOptions> ParseFlowScheduleConfig(absl::string_view json);

// Returns the text as diffusers writes it: with all keys of the class, sorted, and the other keys
// of `options.json`.
std::string FlowScheduleConfigText(const FlowScheduleOptions& options);

// Returns shift s / (1 + (shift - 1) s).
double ShiftLevel(double shift, double level);

// Immutable; cheap to copy.
class FlowSchedule {
 public:
  // Returns InvalidArgument with both values if a shift is not positive, the numbers of image
  // tokens do not increase, or the terminal level is not between 0 and 1.
  static absl::StatusOr<FlowSchedule> Create(const FlowScheduleOptions& options);

  const FlowScheduleOptions& options() const { return options_; }

  // Returns the noise levels of training, from 1 down: (num_train_timesteps - i) /
  // num_train_timesteps for i = 0, 1, ..., shifted unless the shift is dynamic.
  const std::vector<double>& train_levels() const { return train_levels_; }

  // Returns mu for a number of image tokens (FLUX.1: pixels / 256), without limits at both ends.
  double Mu(int64_t image_tokens) const;

  // Returns num_steps + 1 noise levels of sampling: those at which the model is called, and 0. `mu`
  // must be given if the shift is dynamic, else not. Returns InvalidArgument if it is not so, or if
  // num_steps is below 1.
  //
  // kTrained: evenly spaced between the first and the last level of training (Stable Diffusion 3).
  // Those are shifted already, and are shifted again, as in diffusers.
  // kFull: 1, (n - 1) / n, ..., 1 / n before they are shifted (FLUX.1).
  enum class Spacing { kTrained, kFull };
  absl::StatusOr<std::vector<double>> SamplingLevels(int num_steps, Spacing spacing,
                                                     std::optional<double> mu = {}) const;

 private:
  explicit FlowSchedule(const FlowScheduleOptions& options);

  FlowScheduleOptions options_;
  std::vector<double> train_levels_;
};

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_FLOW_SCHEDULE_H_
