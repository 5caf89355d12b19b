// What the ways of drawing have in common: each is a Solver, which says at which timesteps the
// model is called and how x advances by what it predicts.
#ifndef DPIPE_MODELS_DIFFUSION_SAMPLERS_SOLVER_H_
#define DPIPE_MODELS_DIFFUSION_SAMPLERS_SOLVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "models/config/component_config.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/sampler_kind.h"

namespace dpipe::diffusion {

// What the model said at one of a solver's timesteps.
struct Prediction {
  size_t call;           // index of the timestep
  const Tensor& x;       // fp32 [B, ...], as the last Advance returned it, or the scaled noise
  const Tensor& output;  // of the model, of x's shape
  // Returns the call's own standard normal noise of x's shape.
  const std::function<Tensor()>& fresh_noise;
};

// One drawing of one batch. Not thread-safe. After the last call x is x0, fp32.
class Solver {
 public:
  virtual ~Solver() = default;
  // What the model is told, call by call. Need neither be whole nor differ from call to call.
  const std::vector<double>& timesteps() const { return timesteps_; }
  // What the first x is standard normal noise times.
  virtual double initial_scale() const { return 1; }
  // What the model is given is x times this.
  virtual double input_scale(size_t call) const { return 1; }
  // Returns the next x. Calls come in order, each once.
  virtual absl::StatusOr<Tensor> Advance(const Prediction& prediction) = 0;

 protected:
  explicit Solver(std::vector<double> timesteps) : timesteps_(std::move(timesteps)) {}
  const std::vector<double> timesteps_;
};

struct SolverSetup {
  const NoiseSchedule* schedule = nullptr;  // outlives the solver
  int num_steps = 0;
  double eta = 0;  // DDIM's
};

// A key of scheduler_config.json and the values, as JSON, that a sampler follows. Of others it
// draws as if the key was missing.
struct FollowedKey {
  std::string key;
  std::vector<std::string> values;
};

// One way of drawing, in the table of samplers.h.
struct SamplerInfo {
  SamplerKind kind;
  std::string name;                  // on command lines: "dpm++"
  std::vector<std::string> classes;  // of diffusers' schedulers that draw in this way
  std::vector<FollowedKey> followed;
  bool draws_from_x0 = true;  // also of models that predict x0
  // InvalidArgument if the schedule does not have so many steps.
  absl::StatusOr<std::unique_ptr<Solver>> (*make)(const SolverSetup& setup) = nullptr;
};

// Each in a file of its own.
SamplerInfo DdimSampler();
SamplerInfo DdpmSampler();
SamplerInfo DpmSolverSampler();
SamplerInfo EulerSampler();
SamplerInfo EulerAncestralSampler();
SamplerInfo LcmSampler();
SamplerInfo PndmSampler();
SamplerInfo UniPcSampler();

// The keys of the schedule's scheduler_config.json, which a sampler reads its own from.
absl::StatusOr<models::ComponentConfig> SamplerKeys(const NoiseSchedule& schedule);
// The spacing of the schedule's options, or the sampler's own.
inline TimestepSpacing SpacingOr(const NoiseSchedule& schedule, TimestepSpacing own) {
  return schedule.options().timestep_spacing.value_or(own);
}

// a x + b y, fp32.
absl::StatusOr<Tensor> Combine(double a, const Tensor& x, double b, const Tensor& y);
// The sum of weight times tensor, added in order; at least one term.
absl::StatusOr<Tensor> WeightedSum(const std::vector<std::pair<double, Tensor>>& terms);
// x plus `deviation` times the call's fresh noise, which is drawn only if that is not 0.
absl::StatusOr<Tensor> AddFreshNoise(const Prediction& prediction, double deviation,
                                     const Tensor& x);
// x0 as the prediction at abar implies it, clamped if the schedule's options say so.
absl::StatusOr<Tensor> ClippedX0(const NoiseSchedule& schedule, const Prediction& prediction,
                                 double alpha_cumprod);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SAMPLERS_SOLVER_H_
