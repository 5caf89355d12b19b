#include "models/diffusion/draw_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"

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
  return diffusion::InferenceTimesteps(schedule, options.num_steps, options.kind).status();
}

}  // namespace dpipe::models
