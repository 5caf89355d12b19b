#include "core/nn/nodes/conv2d_node.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/nn/nodes/product_work.h"
#include "core/ops/elementwise/add.h"

namespace dpipe::nn {
namespace {

class Conv2dNode : public Node {
 public:
  enum class Addend { kNone, kImage, kOfChannels };

  Conv2dNode(const ops::Conv2dParams& params, const Shape& x, const Shape& w, Addend addend)
      : params_(params), x_(Shape({1, x[0], x[1], x[2]})), w_(w), addend_(addend) {}

  absl::string_view kind() const override { return "conv2d"; }
  ValueType output() const override {
    const Shape y = ops::Conv2dOutputShape(params_, x_, w_);
    return {Shape({y[1], y[2], y[3]}), Element::kCompute};
  }
  NodeWork Work(const WorkContext& context) const override {
    const Shape y = ops::Conv2dOutputShape(params_, x_, w_);
    return WorkOfProduct({roofline::OpClass::kConvolution, y[1] * y[2] * w_.num_elements(),
                          context.input_bytes[0], context.output_bytes, w_.num_elements(),
                          /*has_bias=*/true},
                         context);
  }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr && context.wants_weight_grad) *saved = {inputs[0]};
    return ops::Conv2dForward(params_, inputs[0], *context.weights[0], context.weights[1]->master(),
                              addend_ == Addend::kNone ? Tensor() : inputs[1]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors* saved,
                                                const Tensor& dy) const override {
    if (context.wants_weight_grad) saved->push_back(dy);
    std::vector<Tensor> grads(addend_ == Addend::kNone ? 1 : 2);
    if (context.WantsInputGrad(0)) {
      DPIPE_ASSIGN_OR_RETURN(grads[0], ops::Conv2dInputGrad(params_, dy, *context.weights[0],
                                                            x_.WithBatch(dy.dim(0))));
    }
    if (addend_ == Addend::kImage) {
      grads[1] = dy;
    } else if (addend_ == Addend::kOfChannels && context.WantsInputGrad(1)) {
      DPIPE_ASSIGN_OR_RETURN(grads[1], ops::AddChannelsVectorGrad(dy));
    }
    return grads;
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    return ops::Conv2dWeightGrad(params_, (*saved)[0], (*saved)[1], context.weight_grads[0],
                                 context.weight_grads[1]);
  }

 private:
  const ops::Conv2dParams params_;
  const Shape x_;  // of a batch of one
  const Shape w_;
  const Addend addend_;
};

}  // namespace

ValueId AddConv2d(ProgramBuilder* builder, const std::string& name, ValueId x,
                  const Conv2dSpec& spec) {
  const Shape shape = builder->shape(x);
  DPIPE_CHECK_EQ(shape.rank(), 3) << name;
  const Shape w({spec.out_channels, shape[2], spec.kernel, spec.kernel});
  const InitRule init =
      spec.zero_init ? InitRule::Zeros() : InitRule::FanIn(w.num_elements() / w[0]);
  const ParameterId weight = builder->AddParameter(name + ".weight", w, init, /*decay=*/true);
  const ParameterId bias =
      builder->AddParameter(name + ".bias", Shape({w[0]}), init, /*decay=*/false);
  std::vector<ValueId> inputs = {x};
  auto addend = Conv2dNode::Addend::kNone;
  if (spec.addend.has_value()) {
    inputs.push_back(*spec.addend);
    const bool is_image = builder->shape(*spec.addend).rank() == 3;
    addend = is_image ? Conv2dNode::Addend::kImage : Conv2dNode::Addend::kOfChannels;
  }
  auto node = std::make_unique<Conv2dNode>(spec.params, shape, w, addend);
  if (spec.addend.has_value()) {
    const Shape y = node->output().shape;
    DPIPE_CHECK_EQ(builder->shape(*spec.addend),
                   addend == Conv2dNode::Addend::kImage ? y : Shape({y[2]}))
        << name << ": addend";
  }
  return builder->AddNode(std::move(node), inputs, {weight, bias});
}

}  // namespace dpipe::nn
