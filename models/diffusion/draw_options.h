// How samples are drawn.
#ifndef DPIPE_MODELS_DIFFUSION_DRAW_OPTIONS_H_
#define DPIPE_MODELS_DIFFUSION_DRAW_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/sampler_kind.h"

namespace dpipe::models {

struct DrawOptions {
  int num_steps = 30;
  float guidance = 4.0f;
  uint64_t seed = 0;
  std::optional<diffusion::SamplerKind> kind;  // empty: that of the model's scheduler (samplers.h)
  int batch = 8;                               // prompts drawn together on one device
  // Asked before each denoising step, by several threads; true ends drawing with Cancelled. May be
  // empty.
  std::function<bool()> should_stop;
};

// InvalidArgument, with both values, for a batch below 1, a guidance scale that is not finite, or
// steps that the schedule or the sampler does not have.
absl::Status CheckDrawOptions(const DrawOptions& options, const diffusion::NoiseSchedule& schedule);

// The sampler that the options ask for: ChooseSampler's.
diffusion::SamplerKind SamplerFor(const DrawOptions& options,
                                  const diffusion::NoiseSchedule& schedule);
// How often a drawing calls its model. The options have passed the check above.
int NumModelCalls(const DrawOptions& options, const diffusion::NoiseSchedule& schedule);
// FailedPrecondition, which names the prompt, if a picture as drawn (fp32, one per prompt along the
// leading dimension) has a value that is NaN or infinite: as bytes it would be black or worse.
absl::Status CheckPictures(const Tensor& pictures, const std::vector<std::string>& prompts);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_DIFFUSION_DRAW_OPTIONS_H_
