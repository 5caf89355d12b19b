#include "core/nn/nodes/product_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/product/linear.h"

namespace dpipe::nn {
namespace {

// Returns the work of the product and, if there is a second input, of adding it. The product's
// input is kept for the weight gradient.
NodeWork WorkOfProduct(const roofline::ProductSizes& product, const WorkContext& context) {
  NodeWork work;
  work.ops = {roofline::ProductWork(product, context.gradients())};
  work.saved_inputs = context.wants_weight_grad ? 1 : 0;
  if (context.input_bytes.size() > 1) {
    const bool product_has_gradient = context.WantsInputGrad(0) || context.wants_weight_grad;
    const int64_t gradients = (product_has_gradient ? product.output_bytes : 0) +
                              (context.WantsInputGrad(1) ? context.input_bytes[1] : 0);
    work.ops.push_back(roofline::ElementwiseWork(product.output_bytes + context.input_bytes[1],
                                                 product.output_bytes, gradients,
                                                 /*rereads=*/false));
  }
  return work;
}

class Conv2dNode : public Node {
 public:
  enum class Addend { kNone, kImage, kOfChannels };

  Conv2dNode(const ops::Conv2dParams& params, const Shape& x, const Shape& w, Addend addend)
      : params_(params), x_(Shape({1, x[0], x[1], x[2]})), w_(w), addend_(addend) {}

  absl::string_view kind() const override { return "conv2d"; }
  bool DecodesWeight(int i) const override { return i == 0; }
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

namespace {

class LinearNode : public Node {
 public:
  LinearNode(const Shape& x, const LinearSpec& spec)
      : y_(x), in_(x[-1]), has_bias_(spec.bias), has_addend_(spec.addend.has_value()) {
    y_.Set(-1, spec.out);
  }

  absl::string_view kind() const override { return "linear"; }
  bool DecodesWeight(int i) const override { return i == 0; }
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
