#include "models/diffusion/draw_options.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/text/show.h"
#include "models/diffusion/sampler.h"
#include "models/diffusion/samplers/samplers.h"

namespace dpipe::models {

absl::Status CheckBatchAndGuidance(const DrawOptions& options) {
  if (options.batch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling batch is ", options.batch, ", must be at least 1"));
  }
  if (!std::isfinite(options.guidance)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the guidance scale is ", options.guidance, ", must be finite"));
  }
  return absl::OkStatus();
}

absl::Status CheckDrawOptions(const DrawOptions& options,
                              const diffusion::NoiseSchedule& schedule) {
  DPIPE_RETURN_IF_ERROR(CheckBatchAndGuidance(options));
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

absl::Status CheckPictures(const Tensor& pictures, const std::vector<std::string>& prompts) {
  const size_t size = pictures.num_elements() / prompts.size();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto values = pictures.span<float>().subspan(i * size, size);
    const int64_t bad =
        std::count_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    if (bad == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the picture of '", ShowText(prompts[i]), "' is not finite: ", bad, " of its ", size,
        " values are NaN or infinite; try a lower guidance scale, other adapters or fp32, or use "
        "the weights of an earlier checkpoint"));
  }
  return absl::OkStatus();
}

}  // namespace dpipe::models
