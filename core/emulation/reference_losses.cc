#include "core/emulation/reference_losses.h"

#include <memory>
#include <utility>

#include "core/nn/execution.h"
#include "core/nn/parameters.h"

namespace dpipe {
namespace {

class BackboneTraining {
 public:
  BackboneTraining(const nn::Component& backbone, EmulatedInputs* inputs, int global_batch)
      : backbone_(backbone),
        program_(backbone.program),
        inputs_(inputs),
        global_batch_(global_batch),
        parameters_(program_, program_.all_layers(), device_),
        optimizer_(EmulatedOptimizer()(parameters_)) {}

  absl::Status Load() { return parameters_.Load(inputs_->backbone_parameters()); }

  absl::StatusOr<double> Step(int64_t step, bool self_conditioning) {
    Tensor estimate = Tensor::Zeros(device_, {global_batch_}, DType::kF32);
    const bool conditions = !backbone_.self_conditioning.input.empty();
    if (conditions && self_conditioning) {
      DPIPE_ASSIGN_OR_RETURN(const nn::ValueMap first, Forward(step, estimate, nullptr));
      estimate = first.at(program_.OutputNamed(backbone_.self_conditioning.output));
    }
    nn::RangeState state;
    DPIPE_ASSIGN_OR_RETURN(const nn::ValueMap values, Forward(step, estimate, &state));
    double loss = 0;
    for (float of_sample : values.at(backbone_.loss()).span<float>()) loss += of_sample;
    Tensor seed = Tensor::Empty(device_, {global_batch_}, DType::kF32);
    for (float& g : seed.span<float>()) g = 1.0f / static_cast<float>(global_batch_);
    nn::ValueMap grads = {{backbone_.loss(), seed}};
    DPIPE_RETURN_IF_ERROR(
        nn::Backward(program_, program_.all_layers(), &parameters_, &state, &grads));
    DPIPE_RETURN_IF_ERROR(
        optimizer_->Step(step, /*ends_step=*/true, /*global_norm=*/-1, &parameters_));
    parameters_.ZeroGrads();
    return loss / global_batch_;
  }

 private:
  absl::StatusOr<nn::ValueMap> Forward(int64_t step, const Tensor& estimate,
                                       nn::RangeState* state) {
    nn::ValueMap values;
    for (ValueId id : program_.inputs()) {
      const std::string& name = program_.value(id).name;
      if (name == backbone_.self_conditioning.input) {
        values[id] = estimate;
        continue;
      }
      DPIPE_ASSIGN_OR_RETURN(
          values[id], inputs_->Load(backbone_.name, name, step, {0, global_batch_}, device_));
    }
    DPIPE_RETURN_IF_ERROR(
        nn::Forward(program_, program_.all_layers(), parameters_, {}, &values, state));
    return values;
  }

  const nn::Component& backbone_;
  const nn::Program& program_;
  EmulatedInputs* const inputs_;
  const int global_batch_;
  const std::shared_ptr<Device> device_ = Device::Cpu();
  nn::ParameterSet parameters_;
  const std::unique_ptr<StepOptimizer> optimizer_;
};

}  // namespace

absl::StatusOr<std::vector<double>> ReferenceLosses(const nn::Model& model, EmulatedInputs* inputs,
                                                    int global_batch, bool self_conditioning,
                                                    int num_steps) {
  std::vector<double> losses(num_steps, 0.0);
  for (int index : model.backbones()) {
    BackboneTraining training(model.component(index), inputs, global_batch);
    DPIPE_RETURN_IF_ERROR(training.Load());
    for (int step = 0; step < num_steps; ++step) {
      DPIPE_ASSIGN_OR_RETURN(const double loss, training.Step(step, self_conditioning));
      losses[step] += loss;
    }
  }
  return losses;
}

}  // namespace dpipe
