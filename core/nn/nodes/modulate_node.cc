#include "core/nn/nodes/modulate_node.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/elementwise/gated_add.h"
#include "core/ops/norm/modulate.h"

namespace dpipe::nn {
namespace {

class ModulateNode : public Node {
 public:
  ModulateNode(ValueType output, bool silu) : output_(std::move(output)), silu_(silu) {}

  absl::string_view kind() const override { return silu_ ? "modulate_silu" : "modulate"; }
  ValueType output() const override { return output_; }
  NodeWork Work(const WorkContext& context) const override {
    NodeWork work;
    work.ops = {roofline::ElementwiseWork(context.read_bytes(), context.output_bytes,
                                          context.gradient_bytes(), /*rereads=*/true)};
    work.saved_inputs = 0b11;
    return work;
  }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[0], inputs[1]};
    return ops::ModulateForward(silu_, inputs[0], inputs[1]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(ops::ModulateGrads grads,
                           ops::ModulateInputGrad(silu_, (*saved)[0], (*saved)[1], dy));
    saved->clear();
    return std::vector<Tensor>{std::move(grads.dx), std::move(grads.dv)};
  }

 private:
  const ValueType output_;
  const bool silu_;
};

class ModulatedLayerNormNode : public Node {
 public:
  ModulatedLayerNormNode(const ops::ModulatedLayerNormParams& params, ValueType output)
      : params_(params), output_(std::move(output)) {}

  absl::string_view kind() const override { return "modulated_layer_norm"; }
  ValueType output() const override { return output_; }
  NodeWork Work(const WorkContext& context) const override {
    NodeWork work;
    work.ops = {roofline::NormWork(context.output_bytes,
                                   {context.WantsInputGrad(0) || context.WantsInputGrad(1)})};
    work.saved_inputs = 0b01;
    return work;
  }
  bool AddsToGrad() const override { return true; }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    DPIPE_ASSIGN_OR_RETURN(ops::ModulatedLayerNormResult result,
                           ops::ModulatedLayerNormForward(params_, inputs[0], inputs[1]));
    if (saved != nullptr) *saved = {inputs[0], result.stats, result.scale};
    return result.y;
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors* saved,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(ops::ModulatedLayerNormGrads grads,
                           ops::ModulatedLayerNormInputGrad(params_, (*saved)[0], dy, (*saved)[1],
                                                            (*saved)[2], context.later_grad));
    saved->clear();
    return std::vector<Tensor>{std::move(grads.dx), std::move(grads.dv)};
  }

 private:
  const ops::ModulatedLayerNormParams params_;
  const ValueType output_;
};

class GatedSumNode : public Node {
 public:
  explicit GatedSumNode(ValueType output) : output_(std::move(output)) {}

  absl::string_view kind() const override { return "gated_sum"; }
  ValueType output() const override { return output_; }
  NodeWork Work(const WorkContext& context) const override {
    // The gradient of x is that of the result itself.
    const int64_t gradients = (context.WantsInputGrad(1) ? context.input_bytes[1] : 0) +
                              (context.WantsInputGrad(2) ? context.input_bytes[2] : 0);
    NodeWork work;
    work.ops = {roofline::ElementwiseWork(context.read_bytes(), context.output_bytes, gradients,
                                          /*rereads=*/true)};
    work.saved_inputs = 0b110;
    return work;
  }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    if (saved != nullptr) *saved = {inputs[1], inputs[2]};
    return ops::GatedAddForward(inputs[0], inputs[1], inputs[2]);
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors* saved,
                                                const Tensor& dy) const override {
    std::vector<Tensor> grads = {dy, Tensor(), Tensor()};
    if (context.WantsInputGrad(1) || context.WantsInputGrad(2)) {
      DPIPE_ASSIGN_OR_RETURN(ops::GatedAddGrads of_branch,
                             ops::GatedAddInputGrad((*saved)[0], (*saved)[1], dy));
      grads[1] = std::move(of_branch.dgate);
      grads[2] = std::move(of_branch.dh);
    }
    saved->clear();
    return grads;
  }

 private:
  const ValueType output_;
};

}  // namespace

ValueId AddModulation(ProgramBuilder* builder, ValueId x, ValueId v, bool silu) {
  DPIPE_CHECK_EQ(Shape({2 * builder->shape(x)[-1]}), builder->shape(v));
  return builder->AddNode(std::make_unique<ModulateNode>(builder->type(x), silu), {x, v});
}

ValueId AddModulatedLayerNorm(ProgramBuilder* builder, ValueId x, ValueId v,
                              const ops::ModulatedLayerNormParams& params) {
  DPIPE_CHECK_EQ(Shape({2 * builder->shape(x)[-1]}), builder->shape(v));
  return builder->AddNode(std::make_unique<ModulatedLayerNormNode>(params, builder->type(x)),
                          {x, v});
}

ValueId AddGatedSum(ProgramBuilder* builder, ValueId x, ValueId gate, ValueId h) {
  DPIPE_CHECK_EQ(builder->shape(x), builder->shape(h));
  DPIPE_CHECK_EQ(Shape({builder->shape(x)[-1]}), builder->shape(gate));
  return builder->AddNode(std::make_unique<GatedSumNode>(builder->type(x)), {x, gate, h});
}

}  // namespace dpipe::nn
