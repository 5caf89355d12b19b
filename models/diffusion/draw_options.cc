#include "models/diffusion/draw_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "models/diffusion/sampler.h"
#include "models/diffusion/samplers/samplers.h"

namespace dpipe::models {

absl::Status CheckDrawOptions(const DrawOptions& options,
                              const diffusion::NoiseSchedule& schedule) {
  if (options.batch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling batch is ", options.batch, ", must be at least 1"));
  }
  if (!std::isfinite(options.guidance)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the guidance scale is ", options.guidance, ", must be finite"));
  }
  return diffusion::InferenceTimesteps(schedule, options.num_steps, SamplerFor(options, schedule))
      .status();
}

diffusion::SamplerKind SamplerFor(const DrawOptions& options,
                                  const diffusion::NoiseSchedule& schedule) {
  return diffusion::ChooseSampler(schedule.options(), options.kind).kind;
}

int NumModelCalls(const DrawOptions& options, const diffusion::NoiseSchedule& schedule) {
  const auto timesteps =
      diffusion::InferenceTimesteps(schedule, options.num_steps, SamplerFor(options, schedule));
  DPIPE_CHECK(timesteps.ok()) << timesteps.status();
  return static_cast<int>(timesteps->size());
}

}  // namespace dpipe::models
