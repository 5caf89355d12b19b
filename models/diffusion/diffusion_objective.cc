#include "models/diffusion/diffusion_objective.h"

#include "models/diffusion/draws.h"
#include "models/diffusion/samplers/samplers.h"

namespace dpipe::diffusion {

ValueId DiffusionObjective::AddNoising(nn::ProgramBuilder* builder, ValueId x0, ValueId noise,
                                       ValueId timesteps) const {
  return diffusion::AddNoising(builder, schedule_, x0, noise, timesteps);
}

ValueId DiffusionObjective::AddLoss(nn::ProgramBuilder* builder,
                                    const DiffusionLossInputs& inputs) const {
  return AddDiffusionLoss(builder, schedule_, min_snr_gamma_, inputs);
}

Tensor DiffusionObjective::DrawTimesteps(const TimestepRequest& request,
                                         const std::shared_ptr<Device>& device) const {
  if (request.quantiles.empty()) {
    return TimestepDistribution(request.sampling, schedule_)
        .Draw(device, request.seed, request.step, request.first_sample, request.count);
  }
  return TimestepsAtQuantiles(device, request.quantiles, request.first_sample, request.count,
                              schedule_.num_timesteps());
}

absl::Status DiffusionObjective::CheckDraw(const models::DrawOptions& options) const {
  return CheckDrawOptions(options, schedule_);
}

int DiffusionObjective::NumModelCalls(const models::DrawOptions& options) const {
  return models::NumModelCalls(options, schedule_);
}

std::string DiffusionObjective::SamplerNote(const models::DrawOptions& options) const {
  return ChooseSampler(schedule_.options(), options.kind).note;
}

absl::StatusOr<Tensor> DiffusionObjective::Draw(const models::DrawOptions& options,
                                                uint32_t first_sample, const Tensor& noise,
                                                const PredictFn& predict,
                                                const std::function<void()>& on_step) const {
  SamplerOptions sampling;
  sampling.kind = SamplerFor(options, schedule_);
  sampling.num_steps = options.num_steps;
  sampling.seed = options.seed;
  sampling.first_sample = first_sample;
  sampling.on_step = [&on_step](int, const Tensor&) { on_step(); };
  return Sample(schedule_, sampling, noise, predict);
}

}  // namespace dpipe::diffusion
