#include "models/diffusion/sampler.h"

#include <utility>

#include "core/base/check.h"
#include "models/diffusion/draws.h"
#include "models/diffusion/samplers/samplers.h"

namespace dpipe::diffusion {
namespace {

absl::StatusOr<Tensor> Scaled(double factor, const Tensor& x) {
  if (factor == 1) return x;
  return Combine(factor, x, 0, x);
}

Tensor FreshNoise(const SamplerOptions& options, size_t call, const Tensor& x) {
  if (options.fresh_noise) return options.fresh_noise(static_cast<int>(call), x);
  // Step 0 keys the initial noise.
  return DrawNoise(x.device(), options.seed, call + 1, options.first_sample, x.shape(),
                   RandomPurpose::kSample);
}

}  // namespace

PredictFn WithGuidance(PredictFn predict, float scale) {
  if (!IsGuided(scale)) return predict;
  return [predict = std::move(predict), scale](const Tensor& x_t,
                                               const Tensor& timesteps) -> absl::StatusOr<Tensor> {
    const int64_t batch = x_t.dim(0);
    DPIPE_ASSIGN_OR_RETURN(const Tensor both,
                           predict(ConcatBatch({x_t, x_t}), ConcatBatch({timesteps, timesteps})));
    DPIPE_CHECK_EQ(both.dim(0), 2 * batch) << "guidance needs a prediction for each half";
    return Combine(1 - scale, both.Slice(0, batch), scale, both.Slice(batch, 2 * batch));
  };
}

absl::StatusOr<std::vector<double>> InferenceTimesteps(const NoiseSchedule& schedule, int num_steps,
                                                       SamplerKind kind) {
  DPIPE_ASSIGN_OR_RETURN(const auto solver, MakeSolver(kind, {&schedule, num_steps}));
  return solver->timesteps();
}

absl::StatusOr<Tensor> Sample(const NoiseSchedule& schedule, const SamplerOptions& options,
                              const Tensor& noise, const PredictFn& predict) {
  DPIPE_ASSIGN_OR_RETURN(const auto solver,
                         MakeSolver(options.kind, {&schedule, options.num_steps, options.eta}));
  DPIPE_CHECK(noise.dtype() == DType::kF32) << "noise of " << DTypeName(noise.dtype());
  if (noise.device()->kind() == DeviceKind::kCuda) {
    return absl::UnimplementedError("samplers keep x in host memory; pass a CPU device");
  }
  DPIPE_ASSIGN_OR_RETURN(Tensor x, Scaled(solver->initial_scale(), noise));
  const std::vector<double>& visited = solver->timesteps();
  for (size_t i = 0; i < visited.size(); ++i) {
    const std::vector<float> same(x.dim(0), static_cast<float>(visited[i]));
    const Tensor timesteps = Tensor::FromHost<float>(x.device(), {x.dim(0)}, same);
    DPIPE_ASSIGN_OR_RETURN(const Tensor input, Scaled(solver->input_scale(i), x));
    DPIPE_ASSIGN_OR_RETURN(const Tensor output, predict(input, timesteps));
    DPIPE_CHECK_EQ(output.shape(), x.shape()) << "prediction of a sampler's model";
    const std::function<Tensor()> fresh_noise = [&] { return FreshNoise(options, i, x); };
    DPIPE_ASSIGN_OR_RETURN(x, solver->Advance({i, x, output, fresh_noise}));
    if (options.on_step) options.on_step(static_cast<int>(i), x);
  }
  return x;
}

}  // namespace dpipe::diffusion
