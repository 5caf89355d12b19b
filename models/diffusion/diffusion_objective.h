// The objective of models that predict the noise, v or x_0 on a noise schedule.
#ifndef DPIPE_MODELS_DIFFUSION_DIFFUSION_OBJECTIVE_H_
#define DPIPE_MODELS_DIFFUSION_DIFFUSION_OBJECTIVE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/objective.h"

namespace dpipe::diffusion {

// Draws with the sampler that ChooseSampler (samplers/samplers.h) selects for the schedule.
class DiffusionObjective : public Objective {
 public:
  // `min_snr_gamma` > 0 weights the loss by MinSnrWeights; 0 weights all timesteps equally.
  explicit DiffusionObjective(NoiseSchedule schedule, double min_snr_gamma = 0)
      : schedule_(std::move(schedule)), min_snr_gamma_(min_snr_gamma) {}

  const NoiseSchedule& schedule() const { return schedule_; }

  nn::Element timestep_element() const override { return nn::Element::kI32; }
  ValueId AddNoising(nn::ProgramBuilder* builder, ValueId x0, ValueId noise,
                     ValueId timesteps) const override;
  ValueId AddLoss(nn::ProgramBuilder* builder, const DiffusionLossInputs& inputs) const override;
  Tensor DrawTimesteps(const TimestepRequest& request,
                       const std::shared_ptr<Device>& device) const override;

  absl::Status CheckDraw(const models::DrawOptions& options) const override;
  int NumModelCalls(const models::DrawOptions& options) const override;
  std::string SamplerNote(const models::DrawOptions& options) const override;
  absl::StatusOr<Tensor> Draw(const models::DrawOptions& options, uint32_t first_sample,
                              const Tensor& noise, const PredictFn& predict,
                              const std::function<void()>& on_step) const override;

 private:
  const NoiseSchedule schedule_;
  const double min_snr_gamma_;
};

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_DIFFUSION_OBJECTIVE_H_
