#include "core/runtime/interpreter/rehearsal.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/nn/execution.h"

namespace dpipe {
namespace {

// Creates zero values, or zero gradients of values.
class Zeros {
 public:
  Zeros(const RehearsedPass& pass, std::shared_ptr<Device> device, DType compute_dtype)
      : program_(*pass.program),
        layers_(pass.layers),
        samples_(pass.samples),
        device_(std::move(device)),
        compute_dtype_(compute_dtype) {}

  void Add(ValueId id, nn::ValueMap* values) const {
    const nn::Element element = program_.value(id).type.element;
    (*values)[id] = Tensor::Zeros(device_, program_.BatchShape(id, samples_),
                                  nn::ResolveElement(element, compute_dtype_));
  }
  // Adds those that the layers compute or read.
  void AddUsed(const std::vector<ValueId>& ids, nn::ValueMap* values) const {
    for (ValueId id : ids) {
      const std::vector<nn::NodeId>& uses = program_.value(id).uses;
      const bool is_read = std::any_of(uses.begin(), uses.end(), [&](nn::NodeId use) {
        return layers_.Contains(program_.node(use).layer);
      });
      if (is_read || layers_.Contains(program_.value(id).layer)) Add(id, values);
    }
  }

 private:
  const nn::Program& program_;
  const LayerRange layers_;
  const int samples_;
  const std::shared_ptr<Device> device_;
  const DType compute_dtype_;
};

absl::Status RunBack(const RehearsedPass& pass, const Zeros& zeros, nn::RangeState* state) {
  const nn::Program& program = *pass.program;
  nn::ValueMap grads;
  zeros.AddUsed(program.GradientsAt(pass.layers.end), &grads);
  for (ValueId id : program.OutputsOf(pass.layers)) {
    if (program.value(id).has_gradient) zeros.Add(id, &grads);
  }
  if (pass.back == RehearsedPass::Back::kWhole) {
    return nn::Backward(program, pass.layers, pass.parameters, state, &grads);
  }
  DPIPE_RETURN_IF_ERROR(nn::InputGrad(program, pass.layers, *pass.parameters, state, &grads));
  return nn::WeightGrad(program, pass.layers, pass.parameters, state);
}

absl::Status Run(const RehearsedPass& pass, const std::shared_ptr<Device>& device,
                 DType compute_dtype) {
  const Zeros zeros(pass, device, compute_dtype);
  nn::ValueMap values;
  zeros.AddUsed(pass.program->InputsReadBy(pass.layers), &values);
  zeros.AddUsed(pass.program->LiveAt(pass.layers.begin), &values);
  const bool goes_back = pass.back != RehearsedPass::Back::kNone;
  nn::RangeState state;
  DPIPE_RETURN_IF_ERROR(nn::Forward(*pass.program, pass.layers,
                                    pass.parameters != nullptr ? *pass.parameters : *pass.frozen,
                                    {compute_dtype}, &values, goes_back ? &state : nullptr));
  values.clear();
  return goes_back ? RunBack(pass, zeros, &state) : absl::OkStatus();
}

}  // namespace

absl::Status Rehearse(const RehearsedPass& pass, const std::shared_ptr<Device>& device,
                      DType compute_dtype) {
  const bool goes_back = pass.back != RehearsedPass::Back::kNone;
  if (pass.on_demand) {
    pass.parameters->AllocateMasters(pass.layers);
    if (goes_back) pass.parameters->AllocateGrads(pass.layers);
  }
  const absl::Status status = Run(pass, device, compute_dtype);
  if (pass.on_demand) {
    if (goes_back) pass.parameters->ReleaseGrads(pass.layers);
    pass.parameters->ReleaseMasters(pass.layers);
  } else if (goes_back) {
    pass.parameters->ZeroGrads();  // some losses have gradients of zeros that are not finite
  }
  return status;
}

}  // namespace dpipe
