#include "core/nn/nodes/activation_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/elementwise/elementwise.h"

namespace dpipe::nn {
namespace {

// Reads the input, or both, again for the gradient.
NodeWork ActivationWork(const WorkContext& context) {
  NodeWork work;
  work.ops = {roofline::ElementwiseWork(context.read_bytes(), context.output_bytes,
                                        context.gradient_bytes(), /*rereads=*/true)};
  work.saved_inputs = (1u << context.input_bytes.size()) - 1;
  return work;
}

class ActivationNode : public Node {
 public:
  ActivationNode(ops::Activation activation, const Shape& x) : activation_(activation), x_(x) {}

  absl::string_view kind() const override {
    switch (activation_) {
      case ops::Activation::kSilu:
        return "silu";
      case ops::Activation::kGelu:
        return "gelu";
      case ops::Activation::kGeluTanh:
        return "gelu_tanh";
      case ops::Activation::kQuickGelu:
        return "quick_gelu";
    }
    return "activation";
  }
  ValueType output() const override { return {x_, Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override { return ActivationWork(context); }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[0]};
    return ops::ActivationForward(activation_, inputs[0]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::ActivationInputGrad(activation_, (*saved)[0], dy));
    return std::vector<Tensor>{std::move(dx)};
  }

 private:
  const ops::Activation activation_;
  const Shape x_;
};

class GegluNode : public Node {
 public:
  explicit GegluNode(const Shape& x) : y_(x) { y_.Set(-1, x[-1] / 2); }

  absl::string_view kind() const override { return "geglu"; }
  ValueType output() const override { return {y_, Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override { return ActivationWork(context); }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[0]};
    return ops::GegluForward(inputs[0]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(Tensor dx, ops::GegluInputGrad((*saved)[0], dy));
    return std::vector<Tensor>{std::move(dx)};
  }

 private:
  Shape y_;
};

class ProductNode : public Node {
 public:
  explicit ProductNode(const Shape& shape) : shape_(shape) {}

  absl::string_view kind() const override { return "product"; }
  ValueType output() const override { return {shape_, Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override { return ActivationWork(context); }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[0], inputs[1]};
    return ops::Multiply(inputs[0], inputs[1]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors* saved,
                                                const Tensor& dy) const override {
    std::vector<Tensor> grads(2);
    for (int i = 0; i < 2; ++i) {
      if (!context.WantsInputGrad(i)) continue;
      DPIPE_ASSIGN_OR_RETURN(grads[i], ops::Multiply(dy, (*saved)[1 - i]));
    }
    return grads;
  }

 private:
  const Shape shape_;
};

}  // namespace

ValueId AddActivation(ProgramBuilder* builder, ValueId x, ops::Activation activation) {
  return builder->AddNode(std::make_unique<ActivationNode>(activation, builder->shape(x)), {x});
}

ValueId AddGeglu(ProgramBuilder* builder, ValueId x) {
  DPIPE_CHECK_EQ(builder->shape(x)[-1] % 2, 0);
  return builder->AddNode(std::make_unique<GegluNode>(builder->shape(x)), {x});
}

ValueId AddProduct(ProgramBuilder* builder, ValueId a, ValueId b) {
  DPIPE_CHECK_EQ(builder->shape(a), builder->shape(b));
  return builder->AddNode(std::make_unique<ProductNode>(builder->shape(a)), {a, b});
}

}  // namespace dpipe::nn
