// The amount of noise at each timestep of a diffusion process, and the quantity that a model
// predicts.
//
//   x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) noise,   abar_t = prod_{s <= t} (1 - beta_s)
//
// (Ho et al., arXiv 2006.11239). Values are those of diffusers' schedulers, in double precision.
#ifndef DPIPE_MODELS_DIFFUSION_NOISE_SCHEDULE_H_
#define DPIPE_MODELS_DIFFUSION_NOISE_SCHEDULE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::diffusion {

enum class BetaSchedule {
  kLinear,           // evenly spaced
  kScaledLinear,     // evenly spaced square roots: Stable Diffusion's
  kSquaredCosCapV2,  // abar follows a squared cosine (Nichol and Dhariwal, arXiv 2102.09672)
};

enum class PredictionType {
  kEpsilon,  // the noise
  kV,        // sqrt(abar) noise - sqrt(1 - abar) x_0 (Salimans and Ho, arXiv 2202.00512)
  kSample,   // x_0
};

// Names of config files: "epsilon", "v_prediction", "sample". Parsing another name returns
// InvalidArgument with a list of them.
const char* PredictionTypeName(PredictionType type);
absl::StatusOr<PredictionType> ParsePredictionType(absl::string_view name);

// Spacing of a sampler's timesteps (arXiv 2305.08891, table 2).
enum class TimestepSpacing { kLeading, kTrailing, kLinspace };

// The keys of a diffusers `scheduler_config.json`, with Stable Diffusion's values. If a file lacks
// a key, diffusers' own default applies (see ParseSchedulerConfig).
struct NoiseScheduleOptions {
  int num_train_timesteps = 1000;
  double beta_start = 0.00085;
  double beta_end = 0.012;
  BetaSchedule beta_schedule = BetaSchedule::kScaledLinear;
  PredictionType prediction_type = PredictionType::kEpsilon;
  // If true, shifts and scales betas so that the last timestep is pure noise (arXiv 2305.08891,
  // alg. 1).
  bool rescale_zero_terminal_snr = false;
  // For samplers only, like all fields below. Empty selects each sampler's own spacing.
  std::optional<TimestepSpacing> timestep_spacing;
  // DPM-Solver++, UniPC and Euler take their noise levels from KarrasNoiseLevels (noise_levels.h)
  // instead of from spread timesteps.
  bool use_karras_sigmas = false;
  int steps_offset = 1;
  bool set_alpha_to_one = false;  // abar before the first timestep: 1 if true, else abar_0
  // DDIM, DDPM and LCM clamp predicted x_0 to +- clip_sample_range.
  bool clip_sample = false;
  double clip_sample_range = 1;
  std::string scheduler_class;  // of diffusers, such as "PNDMScheduler"; empty if not given
  std::string json = "{}";      // the file's text, from which each sampler reads its own keys
};

// Parses the text of a `scheduler_config.json`. Returns InvalidArgument if it is not JSON, if a
// value is wrong or not supported (with its key), or if `_class_name` belongs to another process
// (scheduler_config.h). Keys not listed above are left to samplers.
absl::StatusOr<NoiseScheduleOptions> ParseSchedulerConfig(absl::string_view json);

// Returns InvalidArgument if the last timestep is pure noise and the model predicts the noise: the
// prediction would contain no information about x_0 there.
absl::Status CheckPrediction(const NoiseScheduleOptions& options);

// Immutable; cheap to copy.
class NoiseSchedule {
 public:
  // Returns InvalidArgument if there are no timesteps or a beta is outside [0, 1].
  static absl::StatusOr<NoiseSchedule> Create(const NoiseScheduleOptions& options);

  const NoiseScheduleOptions& options() const { return options_; }
  int num_timesteps() const { return static_cast<int>(alphas_cumprod_.size()); }
  // abar_t; t in [0, num_timesteps).
  double alpha_cumprod(int t) const;
  // Returns abar before the first timestep, at which a sampler ends.
  double final_alpha_cumprod() const;
  // Returns abar_t / (1 - abar_t), the signal-to-noise ratio, which decreases with t.
  double snr(int t) const;

 private:
  NoiseSchedule(const NoiseScheduleOptions& options, std::vector<double> alphas_cumprod);

  NoiseScheduleOptions options_;
  std::vector<double> alphas_cumprod_;
};

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_NOISE_SCHEDULE_H_
