#include "tests/testlib/whole_batch.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/nn/execution.h"

namespace dpipe::testlib {
namespace {

class WholeBatch {
 public:
  WholeBatch(const TrainingJob& job, int global_batch) : job_(job), batch_(global_batch) {}

  absl::StatusOr<StepGradients> Run() {
    for (int i = 0; i < job_.model->num_components(); ++i) {
      DPIPE_ASSIGN_OR_RETURN(nn::ValueMap values, InputsOf(job_.model->component(i)));
      const bool is_backbone = job_.model->component(i).is_backbone;
      DPIPE_RETURN_IF_ERROR(is_backbone ? RunBackbone(i, std::move(values))
                                        : RunFrozen(i, std::move(values)));
    }
    return std::move(step_);
  }

 private:
  absl::StatusOr<nn::ValueMap> InputsOf(const nn::Component& component) const {
    nn::ValueMap values;
    for (ValueId id : component.program.inputs()) {
      const std::string& name = component.program.value(id).name;
      const auto source = component.sources.find(name);
      if (source != component.sources.end()) {
        values[id] = outputs_.at({source->second.component, source->second.output});
      } else if (name == component.self_conditioning.input) {
        values[id] =
            Tensor::Zeros(Device::Cpu(), component.program.BatchShape(id, batch_), DType::kF32);
      } else {
        DPIPE_ASSIGN_OR_RETURN(values[id], job_.inputs->Load(component.name, name, /*step=*/0,
                                                             {0, batch_}, Device::Cpu()));
      }
    }
    return values;
  }

  absl::Status RunFrozen(int index, nn::ValueMap values) {
    const nn::Component& component = job_.model->component(index);
    const nn::Program& program = component.program;
    if (job_.load_frozen) {
      DPIPE_RETURN_IF_ERROR(job_.load_frozen(index, program.all_layers()));
    }
    DPIPE_RETURN_IF_ERROR(nn::Forward(program, program.all_layers(), *job_.frozen_parameters[index],
                                      {}, &values, nullptr));
    for (ValueId id : program.outputs()) {
      outputs_[{component.name, program.value(id).name}] = values.at(id);
    }
    return absl::OkStatus();
  }

  absl::Status RunBackbone(int index, nn::ValueMap values) {
    const nn::Component& component = job_.model->component(index);
    const nn::Program& program = component.program;
    nn::ParameterSet parameters(program, program.all_layers(), Device::Cpu());
    DPIPE_RETURN_IF_ERROR(parameters.Load(*job_.backbone_parameters));
    nn::RangeState state;
    DPIPE_RETURN_IF_ERROR(
        nn::Forward(program, program.all_layers(), parameters, {}, &values, &state));
    const absl::Span<const float> losses = values.at(component.loss()).span<float>();
    step_.sample_losses.emplace_back(losses.begin(), losses.end());
    const std::vector<float> shares(batch_, 1.0f / static_cast<float>(batch_));
    nn::ValueMap grads;
    grads[component.loss()] = Tensor::FromHost<float>(Device::Cpu(), Shape({batch_}), shares);
    DPIPE_RETURN_IF_ERROR(nn::Backward(program, program.all_layers(), &parameters, &state, &grads));
    for (nn::ParameterId id : parameters.trainable_ids()) {
      step_.gradients[program.parameter(id).name] = parameters.grad(id)->Clone();
    }
    return absl::OkStatus();
  }

  const TrainingJob& job_;
  const int batch_;
  std::map<std::pair<std::string, std::string>, Tensor> outputs_;  // of frozen components
  StepGradients step_;
};

}  // namespace

absl::StatusOr<StepGradients> WholeBatchGradients(const TrainingJob& job, int global_batch) {
  return WholeBatch(job, global_batch).Run();
}

}  // namespace dpipe::testlib
