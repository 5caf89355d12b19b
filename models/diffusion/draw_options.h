// Options for drawing samples.
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
#include "models/diffusion/samplers/samplers.h"

namespace dpipe::models {

struct DrawOptions {
  int num_steps = 30;
  float guidance = 4.0f;
  uint64_t seed = 0;
  std::optional<diffusion::SamplerKind> kind;  // empty selects the scheduler's (samplers.h)
  int batch = 8;                               // prompts drawn together per device
  // Called before each denoising step, by several threads. If it returns true, drawing ends with
  // Cancelled. May be empty.
  std::function<bool()> should_stop;
};

// Returns InvalidArgument with both values if the batch is below 1 or the guidance scale is not
// finite.
absl::Status CheckBatchAndGuidance(const DrawOptions& options);
// Also returns InvalidArgument if the schedule or the sampler does not support the number of steps.
absl::Status CheckDrawOptions(const DrawOptions& options, const diffusion::NoiseSchedule& schedule);

// Returns the sampler that ChooseSampler selects for the options.
diffusion::SamplerKind SamplerFor(const DrawOptions& options,
                                  const diffusion::NoiseSchedule& schedule);
// Returns the number of model calls per drawing. The options must pass CheckDrawOptions.
int NumModelCalls(const DrawOptions& options, const diffusion::NoiseSchedule& schedule);
// Returns FailedPrecondition with the prompt if a drawn picture has a NaN or an infinite value,
// which would be black or worse as bytes. `pictures` is fp32, with one picture per prompt along the
// leading dimension.
absl::Status CheckPictures(const Tensor& pictures, const std::vector<std::string>& prompts);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_DIFFUSION_DRAW_OPTIONS_H_
