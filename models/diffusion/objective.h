// What a model learns to predict from noisy samples, and how its predictions become samples. This
// is all that differs between diffusion on a noise schedule and flow matching.
//
//   diffusion      x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) noise; target: noise, v or x_0;
//                  timesteps are int32 indices (diffusion_objective.h)
//   flow matching  x_s = (1 - s) x_0 + s noise; target: noise - x_0; timesteps are fp32
#ifndef DPIPE_MODELS_DIFFUSION_OBJECTIVE_H_
#define DPIPE_MODELS_DIFFUSION_OBJECTIVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/program_builder.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/draw_options.h"
#include "models/diffusion/draws.h"
#include "models/diffusion/noise_nodes.h"
#include "models/diffusion/sampler.h"

namespace dpipe::diffusion {

// The samples [first_sample, first_sample + count) of a training step, and how their timesteps are
// chosen.
struct TimestepRequest {
  TimestepSampling sampling = TimestepSampling::kUniform;
  // If not empty, sample i has the timestep at quantile quantiles[i mod size] in [0, 1) instead.
  std::vector<double> quantiles;
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t first_sample = 0;
  int count = 0;
  int64_t num_positions = 0;  // height x width of a sample, for shifts that depend on resolution
};

// Immutable and thread-safe.
class Objective {
 public:
  virtual ~Objective() = default;

  // Element type of the input "timesteps" of training programs, kI32 or kF32. Drawing programs
  // always read fp32.
  virtual nn::Element timestep_element() const = 0;
  // Adds x0, noise [...] in fp32, timesteps [] -> noisy samples in the compute dtype. Its inputs
  // get no gradient.
  virtual ValueId AddNoising(nn::ProgramBuilder* builder, ValueId x0, ValueId noise,
                             ValueId timesteps) const = 0;
  // Adds one loss per sample, fp32 []. Only the prediction gets a gradient.
  virtual ValueId AddLoss(nn::ProgramBuilder* builder, const DiffusionLossInputs& inputs) const = 0;
  // Returns timesteps [count] of timestep_element(). A row depends on (seed, step, sample) alone.
  virtual Tensor DrawTimesteps(const TimestepRequest& request,
                               const std::shared_ptr<Device>& device) const = 0;

  // Returns InvalidArgument with both values if Draw would reject the options.
  virtual absl::Status CheckDraw(const models::DrawOptions& options) const = 0;
  // Returns the number of model calls per drawing. The options must pass CheckDraw.
  virtual int NumModelCalls(const models::DrawOptions& options) const = 0;
  // Returns a sentence for the user about how these options draw, or "".
  virtual std::string SamplerNote(const models::DrawOptions& options) const = 0;
  // Returns samples drawn from `noise` [B, ...], fp32, in host memory. Row b is sample
  // first_sample + b. `predict` supplies the conditions and the guidance. Calls `on_step` after
  // each model call. Passes on errors of `predict`.
  virtual absl::StatusOr<Tensor> Draw(const models::DrawOptions& options, uint32_t first_sample,
                                      const Tensor& noise, const PredictFn& predict,
                                      const std::function<void()>& on_step) const = 0;
};

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_OBJECTIVE_H_
