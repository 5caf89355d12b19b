// The objective of models that predict the velocity noise - x0 by flow matching; flow_schedule.h
// has the definitions.
#ifndef DPIPE_MODELS_DIFFUSION_FLOW_OBJECTIVE_H_
#define DPIPE_MODELS_DIFFUSION_FLOW_OBJECTIVE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/diffusion/flow_matching.h"
#include "models/diffusion/flow_schedule.h"
#include "models/diffusion/objective.h"

namespace dpipe::diffusion {

// What a model family adds to its folder's scheduler.
struct FlowObjectiveOptions {
  FlowSamplingOptions training;  // how training draws noise levels
  FlowWeight weight = FlowWeight::kOne;
  FlowSchedule::Spacing spacing = FlowSchedule::Spacing::kTrained;  // of the levels of drawing
  // Positions of a sample per image token, for a dynamic shift: 2 x 2 patches.
  int positions_per_token = 4;
};

// Timesteps are fp32, num_train_timesteps times the noise level.
//
// Training does not shift by resolution, as in diffusers' training scripts. Drawing does if the
// schedule is dynamic, by the size of the noise.
class FlowObjective : public Objective {
 public:
  // Errors are those of FlowLevels::Create; also InvalidArgument if positions_per_token is below 1.
  static absl::StatusOr<FlowObjective> Create(const FlowSchedule& schedule,
                                              const FlowObjectiveOptions& options);

  const FlowSchedule& schedule() const { return schedule_; }

  nn::Element timestep_element() const override { return nn::Element::kF32; }
  ValueId AddNoising(nn::ProgramBuilder* builder, ValueId x0, ValueId noise,
                     ValueId timesteps) const override;
  ValueId AddLoss(nn::ProgramBuilder* builder, const DiffusionLossInputs& inputs) const override;
  // Draws FlowLevels. kSpeed is the same as kUniform: on a straight path the noise grows evenly, so
  // no timestep is among those that SpeeD draws less often.
  //
  // Quantile q is the schedule's level with a share q of the levels below it, without
  // FlowSamplingOptions::shift.
  Tensor DrawTimesteps(const TimestepRequest& request,
                       const std::shared_ptr<Device>& device) const override;

  // Accepts Euler's sampler and the folder's, which is the same.
  absl::Status CheckDraw(const models::DrawOptions& options) const override;
  int NumModelCalls(const models::DrawOptions& options) const override;
  std::string SamplerNote(const models::DrawOptions& options) const override { return ""; }
  // Draws nothing but the noise at random. `noise` is [B, height, width, channels].
  absl::StatusOr<Tensor> Draw(const models::DrawOptions& options, uint32_t first_sample,
                              const Tensor& noise, const PredictFn& predict,
                              const std::function<void()>& on_step) const override;

 private:
  FlowObjective(const FlowSchedule& schedule, FlowLevels levels,
                const FlowObjectiveOptions& options)
      : schedule_(schedule), levels_(std::move(levels)), options_(options) {}

  // Adds timesteps [] -> levels [].
  ValueId AddLevel(nn::ProgramBuilder* builder, ValueId timesteps) const;
  // Returns the levels of drawing a sample with this many image tokens.
  absl::StatusOr<std::vector<double>> DrawingLevels(int num_steps, int64_t image_tokens) const;
  double LevelAtQuantile(double quantile) const;

  const FlowSchedule schedule_;
  const FlowLevels levels_;
  const FlowObjectiveOptions options_;
};

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_FLOW_OBJECTIVE_H_
