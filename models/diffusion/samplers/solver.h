// The interface of all samplers. A Solver determines the timesteps of the model's calls and
// advances x by the model's predictions.
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

namespace dpipe::diffusion {

enum class SamplerKind {
  kDdim,
  kDdpm,
  kDpmSolver,
  kEuler,
  kEulerAncestral,
  kLcm,
  kPndm,
  kUniPc,
};

// The model's output at one of a solver's timesteps.
struct Prediction {
  size_t call;           // index of the timestep
  const Tensor& x;       // fp32 [B, ...]: the last result of Advance, or the scaled noise
  const Tensor& output;  // the model's, with x's shape
  // Returns the call's own standard normal noise of x's shape.
  const std::function<Tensor()>& fresh_noise;
};

// Draws one batch once. Not thread-safe. After the last call x is x0, fp32.
class Solver {
 public:
  virtual ~Solver() = default;
  // Timesteps passed to the model, one per call. They may be fractional and may repeat.
  const std::vector<double>& timesteps() const { return timesteps_; }
  // Factor of the initial noise: the first x is standard normal noise times this.
  virtual double initial_scale() const { return 1; }
  // Factor of the model's input: the model gets x times this.
  virtual double input_scale(size_t call) const { return 1; }
  // Returns the next x. Must be called once per timestep, in order.
  virtual absl::StatusOr<Tensor> Advance(const Prediction& prediction) = 0;

 protected:
  explicit Solver(std::vector<double> timesteps) : timesteps_(std::move(timesteps)) {}
  const std::vector<double> timesteps_;
};

struct SolverSetup {
  const NoiseSchedule* schedule = nullptr;  // must outlive the solver
  int num_steps = 0;
  double eta = 0;  // for DDIM only
};

// A key of scheduler_config.json and the values (as JSON) that a sampler supports. It treats other
// values as a missing key.
struct FollowedKey {
  std::string key;
  std::vector<std::string> values;
};

// One entry in the table of samplers.h.
struct SamplerInfo {
  SamplerKind kind;
  std::string name;                  // on command lines: "dpm++"
  std::vector<std::string> classes;  // diffusers' schedulers that draw in this way
  std::vector<FollowedKey> followed;
  bool draws_from_x0 = true;  // true if it also supports models that predict x0
  // Returns InvalidArgument if the schedule does not support the number of steps.
  absl::StatusOr<std::unique_ptr<Solver>> (*make)(const SolverSetup& setup) = nullptr;
};

// Each is in its own file.
SamplerInfo DdimSampler();
SamplerInfo DdpmSampler();
SamplerInfo DpmSolverSampler();
SamplerInfo EulerSampler();
SamplerInfo EulerAncestralSampler();
SamplerInfo LcmSampler();
SamplerInfo PndmSampler();
SamplerInfo UniPcSampler();

// Parses the schedule's scheduler_config.json, from which a sampler reads its own keys.
absl::StatusOr<models::ComponentConfig> SamplerKeys(const NoiseSchedule& schedule);
// Returns the spacing of the schedule's options, or the sampler's own if they have none.
inline TimestepSpacing SpacingOr(const NoiseSchedule& schedule, TimestepSpacing own) {
  return schedule.options().timestep_spacing.value_or(own);
}

// Returns a x + b y, fp32.
absl::StatusOr<Tensor> Combine(double a, const Tensor& x, double b, const Tensor& y);
// Returns the sum of weight times tensor, added in order; there must be at least one term.
absl::StatusOr<Tensor> WeightedSum(const std::vector<std::pair<double, Tensor>>& terms);
// Returns x plus `deviation` times the call's fresh noise, which is drawn only if `deviation` is
// not 0.
absl::StatusOr<Tensor> AddFreshNoise(const Prediction& prediction, double deviation,
                                     const Tensor& x);
// Returns the x0 that the prediction at abar implies, clamped if the schedule's options say so.
absl::StatusOr<Tensor> ClippedX0(const NoiseSchedule& schedule, const Prediction& prediction,
                                 double alpha_cumprod);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SAMPLERS_SOLVER_H_
