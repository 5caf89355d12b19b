#include "core/nn/nodes/linear_node.h"

#include <memory>
#include <utility>

#include "core/ops/linear.h"

namespace dpipe::nn {
namespace {

class LinearNode : public Node {
 public:
  LinearNode(const Shape& x, int64_t out, bool has_bias) : y_(x), in_(x[-1]), has_bias_(has_bias) {
    y_.Set(-1, out);
  }

  absl::string_view kind() const override { return "linear"; }
  ValueType output() const override { return {y_, Element::kCompute}; }
  int64_t MultiplyAdds() const override { return y_.num_elements() * in_; }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr && context.wants_weight_grad) *saved = {inputs[0]};
    return ops::LinearForward(inputs[0], *context.weights[0],
                              has_bias_ ? context.weights[1]->master() : Tensor());
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors* saved,
                                                const Tensor& dy) const override {
    if (context.wants_weight_grad) saved->push_back(dy);
    if (!context.WantsInputGrad(0)) return std::vector<Tensor>(1);
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::LinearInputGrad(dy, *context.weights[0]));
    return std::vector<Tensor>{std::move(dx)};
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    Tensor dw = context.weight_grads[0]->Reshape(Shape({y_[-1], in_}));  // drops a 1x1 kernel
    return ops::LinearWeightGrad((*saved)[0], (*saved)[1], &dw,
                                 has_bias_ ? context.weight_grads[1] : nullptr);
  }

 private:
  Shape y_;
  const int64_t in_;
  const bool has_bias_;
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
  return builder->AddNode(std::make_unique<LinearNode>(shape, spec.out, spec.bias), {x},
                          parameters);
}

}  // namespace dpipe::nn
