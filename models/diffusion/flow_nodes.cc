#include "models/diffusion/flow_nodes.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/ops/diffusion/diffusion.h"

namespace dpipe::diffusion {
namespace {

class FlowNoisingNode : public nn::Node {
 public:
  explicit FlowNoisingNode(Shape shape) : shape_(std::move(shape)) {}

  absl::string_view kind() const override { return "add_flow_noise"; }
  nn::ValueType output() const override { return {shape_, nn::Element::kCompute}; }

  absl::StatusOr<Tensor> Forward(const nn::NodeContext& context, absl::Span<const Tensor> inputs,
                                 nn::SavedTensors*) const override {
    return FlowInput(inputs[0], inputs[1], inputs[2], context.compute_dtype);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext&, nn::SavedTensors*,
                                                const Tensor&) const override {
    return absl::InternalError("noised data has no gradient");
  }

 private:
  const Shape shape_;
};

// Inputs: prediction, x0, noise and, if levels differ in weight, the level. Saves prediction,
// target and weights.
class FlowLossNode : public nn::Node {
 public:
  explicit FlowLossNode(FlowWeight weight) : weight_(weight) {}

  absl::string_view kind() const override { return "flow_loss"; }
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
    DPIPE_ASSIGN_OR_RETURN(const Tensor target, FlowTarget(inputs[1], inputs[2]));
    Tensor weights;
    if (weight_ != FlowWeight::kOne) {
      DPIPE_ASSIGN_OR_RETURN(weights, FlowWeights(weight_, inputs[3]));
    }
    if (saved != nullptr) *saved = {inputs[0], target, weights};
    return ops::MseLossForward(inputs[0], target, weights);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const nn::NodeContext&, nn::SavedTensors* saved,
                                                const Tensor& d_loss) const override {
    std::vector<Tensor> grads(weight_ == FlowWeight::kOne ? 3 : 4);
    DPIPE_ASSIGN_OR_RETURN(grads[0],
                           ops::MseLossInputGrad((*saved)[0], (*saved)[1], (*saved)[2], d_loss));
    return grads;
  }

 private:
  const FlowWeight weight_;
};

}  // namespace

ValueId AddFlowNoising(nn::ProgramBuilder* builder, ValueId x0, ValueId noise, ValueId level) {
  DPIPE_CHECK_EQ(builder->shape(x0), builder->shape(noise));
  DPIPE_CHECK_EQ(builder->shape(level), Shape());
  return builder->AddNode(std::make_unique<FlowNoisingNode>(builder->shape(x0)),
                          {x0, noise, level});
}

ValueId AddFlowLoss(nn::ProgramBuilder* builder, FlowWeight weight, const FlowLossInputs& inputs) {
  DPIPE_CHECK_EQ(builder->shape(inputs.prediction), builder->shape(inputs.x0));
  DPIPE_CHECK_EQ(builder->shape(inputs.noise), builder->shape(inputs.x0));
  std::vector<ValueId> values = {inputs.prediction, inputs.x0, inputs.noise};
  if (weight != FlowWeight::kOne) values.push_back(inputs.level);
  return builder->AddNode(std::make_unique<FlowLossNode>(weight), values);
}

}  // namespace dpipe::diffusion
