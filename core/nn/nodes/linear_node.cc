#include "core/nn/nodes/linear_node.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/nn/nodes/product_work.h"
#include "core/ops/product/linear.h"

namespace dpipe::nn {
namespace {

class LinearNode : public Node {
 public:
  LinearNode(const Shape& x, const LinearSpec& spec)
      : y_(x), in_(x[-1]), has_bias_(spec.bias), has_addend_(spec.addend.has_value()) {
    y_.Set(-1, spec.out);
  }

  absl::string_view kind() const override { return "linear"; }
  ValueType output() const override { return {y_, Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override {
    return WorkOfProduct({roofline::OpClass::kMatmul, y_.num_elements() * in_,
                          context.input_bytes[0], context.output_bytes, in_ * y_[-1], has_bias_},
                         context);
  }
  bool AddsToGrad() const override { return true; }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr && context.wants_weight_grad) *saved = {inputs[0]};
    return ops::LinearForward(inputs[0], *context.weights[0],
                              has_bias_ ? context.weights[1]->master() : Tensor(),
                              has_addend_ ? inputs[1] : Tensor());
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors* saved,
                                                const Tensor& dy) const override {
    if (context.wants_weight_grad) saved->push_back(dy);
    std::vector<Tensor> grads(has_addend_ ? 2 : 1);
    if (context.WantsInputGrad(0)) {
      DPIPE_ASSIGN_OR_RETURN(grads[0],
                             ops::LinearInputGrad(dy, *context.weights[0], context.later_grad));
    }
    if (has_addend_) grads[1] = dy;
    return grads;
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    Tensor dw = context.weight_grads[0]->Reshape(Shape({y_[-1], in_}));  // drops a 1x1 kernel
    return ops::LinearWeightGrad((*saved)[0], (*saved)[1], &dw,
                                 has_bias_ ? context.weight_grads[1] : nullptr);
  }

 private:
  Shape y_;
  const int64_t in_;
  const bool has_bias_, has_addend_;
};

}  // namespace

ValueId AddLinear(ProgramBuilder* builder, const std::string& name, ValueId x,
                  const LinearSpec& spec) {
  const Shape shape = builder->shape(x);
  const int64_t in = shape[-1];
  const InitRule init = spec.zero_init ? InitRule::Zeros() : InitRule::FanIn(in);
  const Shape w = spec.conv1x1 ? Shape({spec.out, in, 1, 1}) : Shape({spec.out, in});
  std::vector<ParameterId> parameters = {
      builder->AddParameter(name + ".weight", w, init, /*decay=*/true)};
  if (spec.bias) {
    parameters.push_back(
        builder->AddParameter(name + ".bias", Shape({spec.out}), init, /*decay=*/false));
  }
  auto node = std::make_unique<LinearNode>(shape, spec);
  std::vector<ValueId> inputs = {x};
  if (spec.addend.has_value()) {
    DPIPE_CHECK_EQ(builder->shape(*spec.addend), node->output().shape) << name << ": addend";
    inputs.push_back(*spec.addend);
  }
  return builder->AddNode(std::move(node), inputs, parameters);
}

}  // namespace dpipe::nn
