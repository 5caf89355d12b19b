#include "models/diffusion/flow_objective.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/nn/nodes/shape_nodes.h"
#include "models/diffusion/flow_nodes.h"
#include "models/diffusion/samplers/samplers.h"

namespace dpipe::diffusion {

absl::StatusOr<FlowObjective> FlowObjective::Create(const FlowSchedule& schedule,
                                                    const FlowObjectiveOptions& options) {
  if (options.positions_per_token < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("positions_per_token is ", options.positions_per_token, "; use at least 1"));
  }
  DPIPE_ASSIGN_OR_RETURN(FlowLevels levels, FlowLevels::Create(schedule, options.training));
  return FlowObjective(schedule, std::move(levels), options);
}

ValueId FlowObjective::AddLevel(nn::ProgramBuilder* builder, ValueId timesteps) const {
  return nn::AddScale(builder, timesteps,
                      static_cast<float>(1.0 / schedule_.options().num_train_timesteps));
}

ValueId FlowObjective::AddNoising(nn::ProgramBuilder* builder, ValueId x0, ValueId noise,
                                  ValueId timesteps) const {
  return AddFlowNoising(builder, x0, noise, AddLevel(builder, timesteps));
}

ValueId FlowObjective::AddLoss(nn::ProgramBuilder* builder,
                               const DiffusionLossInputs& inputs) const {
  FlowLossInputs loss = {inputs.prediction, inputs.x0, inputs.noise, inputs.timesteps};
  if (options_.weight != FlowWeight::kOne) loss.level = AddLevel(builder, inputs.timesteps);
  return AddFlowLoss(builder, options_.weight, loss);
}

double FlowObjective::LevelAtQuantile(double quantile) const {
  const std::vector<double>& falling = schedule_.train_levels();
  const auto rank = static_cast<size_t>(quantile * static_cast<double>(falling.size()));
  DPIPE_CHECK(rank < falling.size()) << "quantile " << quantile;
  return falling[falling.size() - 1 - rank];
}

Tensor FlowObjective::DrawTimesteps(const TimestepRequest& request,
                                    const std::shared_ptr<Device>& device) const {
  std::vector<float> timesteps;
  for (int i = 0; i < request.count; ++i) {
    const uint32_t sample = request.first_sample + static_cast<uint32_t>(i);
    const double level =
        request.quantiles.empty()
            ? levels_.DrawLevel(request.seed, request.step, sample)
            : LevelAtQuantile(request.quantiles[sample % request.quantiles.size()]);
    // As FlowTimesteps.
    timesteps.push_back(static_cast<float>(schedule_.options().num_train_timesteps) *
                        static_cast<float>(level));
  }
  return Tensor::FromHost<float>(device, {request.count}, timesteps);
}

absl::StatusOr<std::vector<double>> FlowObjective::DrawingLevels(int num_steps,
                                                                 int64_t image_tokens) const {
  std::optional<double> mu;
  if (schedule_.options().use_dynamic_shifting) mu = schedule_.Mu(image_tokens);
  return schedule_.SamplingLevels(num_steps, options_.spacing, mu);
}

absl::Status FlowObjective::CheckDraw(const models::DrawOptions& options) const {
  DPIPE_RETURN_IF_ERROR(models::CheckBatchAndGuidance(options));
  if (options.kind.value_or(SamplerKind::kEuler) != SamplerKind::kEuler) {
    return absl::InvalidArgumentError(
        absl::StrCat("the sampler is ", SamplerOf(*options.kind).name,
                     ", but models of flow matching are drawn by Euler's method; use euler or "
                     "folder"));
  }
  return DrawingLevels(options.num_steps, schedule_.options().base_image_seq_len).status();
}

int FlowObjective::NumModelCalls(const models::DrawOptions& options) const {
  return options.num_steps;
}

absl::StatusOr<Tensor> FlowObjective::Draw(const models::DrawOptions& options,
                                           uint32_t first_sample, const Tensor& noise,
                                           const PredictFn& predict,
                                           const std::function<void()>& on_step) const {
  DPIPE_CHECK_EQ(noise.shape().rank(), 4);
  const int64_t image_tokens = noise.dim(1) * noise.dim(2) / options_.positions_per_token;
  FlowSampleOptions sampling;
  DPIPE_ASSIGN_OR_RETURN(sampling.levels, DrawingLevels(options.num_steps, image_tokens));
  sampling.on_step = [&on_step](int, const Tensor&) { on_step(); };
  return SampleFlow(schedule_, sampling, noise, predict);
}

}  // namespace dpipe::diffusion
