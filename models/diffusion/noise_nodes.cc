#include "models/diffusion/noise_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/diffusion/diffusion.h"
#include "models/diffusion/noising.h"

namespace dpipe::diffusion {
namespace {

class NoisingNode : public nn::Node {
 public:
  NoisingNode(NoiseSchedule schedule, Shape shape)
      : schedule_(std::move(schedule)), shape_(std::move(shape)) {}

  absl::string_view kind() const override { return "add_noise"; }
  nn::ValueType output() const override { return {shape_, nn::Element::kCompute}; }

  absl::StatusOr<Tensor> Forward(const nn::NodeContext& context, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors*) const override {
    return AddNoise(schedule_, inputs[0], inputs[1], inputs[2], context.compute_dtype);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext&, nn::SavedTensors*,
                                                const Tensor&) const override {
    return absl::InternalError("noised data has no gradient");
  }

 private:
  const NoiseSchedule schedule_;
  const Shape shape_;
};

// Inputs: prediction, x0, noise, timesteps. Saves prediction, target, weights.
class DiffusionLossNode : public nn::Node {
 public:
  DiffusionLossNode(NoiseSchedule schedule, double min_snr_gamma)
      : schedule_(std::move(schedule)), min_snr_gamma_(min_snr_gamma) {}

  absl::string_view kind() const override { return "diffusion_loss"; }
  nn::ValueType output() const override { return {Shape(), nn::Element::kF32}; }
  nn::NodeWork Work(const nn::WorkContext& context) const override {
    // The target is as large as x0.
    const int64_t prediction = context.input_bytes[0], target = context.input_bytes[1];
    nn::NodeWork work;
    work.ops = {roofline::LossWork(context.read_bytes(), prediction + target, prediction)};
    work.saved_inputs = 1;
    work.saved_bytes = target;
    return work;
  }

  absl::StatusOr<Tensor> Forward(const nn::NodeContext&, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors* saved) const override {
    DPIPE_ASSIGN_OR_RETURN(const Tensor target,
                           TrainingTarget(schedule_, inputs[1], inputs[2], inputs[3]));
    Tensor weights;
    if (min_snr_gamma_ > 0) {
      DPIPE_ASSIGN_OR_RETURN(weights, MinSnrWeights(schedule_, min_snr_gamma_, inputs[3]));
    }
    if (saved != nullptr) *saved = {inputs[0], target, weights};
    return ops::MseLossForward(inputs[0], target, weights);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext&, nn::SavedTensors* saved,
                                                const Tensor& d_loss) const override {
    std::vector<Tensor> grads(4);
    DPIPE_ASSIGN_OR_RETURN(grads[0],
                           ops::MseLossInputGrad((*saved)[0], (*saved)[1], (*saved)[2], d_loss));
    return grads;
  }

 private:
  const NoiseSchedule schedule_;
  const double min_snr_gamma_;
};

}  // namespace

ValueId AddNoising(nn::ProgramBuilder* builder, const NoiseSchedule& schedule, ValueId x0,
                   ValueId noise, ValueId timesteps) {
  DPIPE_CHECK_EQ(builder->shape(x0), builder->shape(noise));
  return builder->AddNode(std::make_unique<NoisingNode>(schedule, builder->shape(x0)),
                          {x0, noise, timesteps});
}

ValueId AddDiffusionLoss(nn::ProgramBuilder* builder, const NoiseSchedule& schedule,
                         double min_snr_gamma, const DiffusionLossInputs& inputs) {
  DPIPE_CHECK_EQ(builder->shape(inputs.prediction), builder->shape(inputs.x0));
  DPIPE_CHECK_EQ(builder->shape(inputs.noise), builder->shape(inputs.x0));
  return builder->AddNode(std::make_unique<DiffusionLossNode>(schedule, min_snr_gamma),
                          {inputs.prediction, inputs.x0, inputs.noise, inputs.timesteps});
}

}  // namespace dpipe::diffusion
