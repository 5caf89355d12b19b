#include "core/nn/nodes/norm_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/norm/group_norm.h"

namespace dpipe::nn {
namespace {

NodeWork WorkOfNorm(const WorkContext& context) {
  NodeWork work;
  work.ops = {roofline::NormWork(context.output_bytes, context.gradients())};
  work.saved_inputs = 1;
  return work;
}

// Forward saves {x, stats}; InputGrad leaves {sums}.
class GroupNormNode : public Node {
 public:
  GroupNormNode(const ops::GroupNormParams& params, const Shape& x) : params_(params), x_(x) {}

  absl::string_view kind() const override {
    return params_.silu ? "group_norm_silu" : "group_norm";
  }
  ValueType output() const override { return {x_, Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override { return WorkOfNorm(context); }
  bool AddsToGrad() const override { return true; }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    DPIPE_ASSIGN_OR_RETURN(ops::GroupNormResult result,
                           ops::GroupNormForward(params_, inputs[0], context.weights[0]->master(),
                                                 context.weights[1]->master()));
    if (saved != nullptr) *saved = {inputs[0], result.stats};
    return result.y;
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors* saved,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(
        ops::GroupNormGrads grads,
        ops::GroupNormInputGrad(params_, (*saved)[0], dy, (*saved)[1], context.weights[0]->master(),
                                context.weights[1]->master(), context.later_grad));
    *saved = {std::move(grads.sums)};
    return std::vector<Tensor>{std::move(grads.dx)};
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    return ops::GroupNormWeightGrad((*saved)[0], context.weight_grads[0], context.weight_grads[1]);
  }

 private:
  const ops::GroupNormParams params_;
  const Shape x_;
};

// Saves the same slots as GroupNormNode.
class LayerNormNode : public Node {
 public:
  LayerNormNode(const ops::LayerNormParams& params, const Shape& x) : params_(params), x_(x) {}

  absl::string_view kind() const override { return "layer_norm"; }
  ValueType output() const override { return {x_, Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override { return WorkOfNorm(context); }
  bool AddsToGrad() const override { return true; }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    DPIPE_ASSIGN_OR_RETURN(ops::LayerNormResult result,
                           ops::LayerNormForward(params_, inputs[0], context.weights[0]->master(),
                                                 context.weights[1]->master()));
    if (saved != nullptr) *saved = {inputs[0], result.stats};
    return result.y;
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors* saved,
                                                const Tensor& dy) const override {
    DPIPE_ASSIGN_OR_RETURN(
        ops::LayerNormGrads grads,
        ops::LayerNormInputGrad((*saved)[0], dy, (*saved)[1], context.weights[0]->master(),
                                context.later_grad));
    *saved = {std::move(grads.sums)};
    return std::vector<Tensor>{std::move(grads.dx)};
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    return ops::LayerNormWeightGrad((*saved)[0], context.weight_grads[0], context.weight_grads[1]);
  }

 private:
  const ops::LayerNormParams params_;
  const Shape x_;
};

// Forward saves {x, rstd}; InputGrad leaves {sums}.
class RmsNormNode : public Node {
 public:
  RmsNormNode(const ops::RmsNormParams& params, const Shape& x, int64_t width)
      : params_(params), x_(x), width_(width) {}

  absl::string_view kind() const override { return "rms_norm"; }
  ValueType output() const override { return {x_, Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override { return WorkOfNorm(context); }
  bool AddsToGrad() const override { return true; }

  absl::StatusOr<Tensor> Forward(const NodeContext& context, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    DPIPE_ASSIGN_OR_RETURN(
        ops::RmsNormResult result,
        ops::RmsNormForward(params_, Rows(inputs[0]), context.weights[0]->master()));
    if (saved != nullptr) *saved = {inputs[0], result.rstd};
    return result.y.Reshape(inputs[0].shape());
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext& context, SavedTensors* saved,
                                                const Tensor& dy) const override {
    const Tensor& later = context.later_grad;
    DPIPE_ASSIGN_OR_RETURN(
        ops::RmsNormGrads grads,
        ops::RmsNormInputGrad(Rows((*saved)[0]), Rows(dy), (*saved)[1],
                              context.weights[0]->master(), later.defined() ? Rows(later) : later));
    *saved = {std::move(grads.sums)};
    return std::vector<Tensor>{grads.dx.Reshape(dy.shape())};
  }

  absl::Status WeightGrad(const NodeContext& context, SavedTensors* saved) const override {
    return ops::RmsNormWeightGrad((*saved)[0], context.weight_grads[0]);
  }

 private:
  // Returns x as [batch, rows, width].
  Tensor Rows(const Tensor& x) const {
    return x.Reshape({x.dim(0), x.num_elements() / x.dim(0) / width_, width_});
  }

  const ops::RmsNormParams params_;
  const Shape x_;
  const int64_t width_;
};

std::vector<ParameterId> AddScaleAndBias(ProgramBuilder* builder, const std::string& name,
                                         int64_t channels) {
  return {builder->AddParameter(name + ".weight", Shape({channels}), InitRule::Ones(), false),
          builder->AddParameter(name + ".bias", Shape({channels}), InitRule::Zeros(), false)};
}

}  // namespace

ValueId AddGroupNorm(ProgramBuilder* builder, const std::string& name, ValueId x,
                     const ops::GroupNormParams& params) {
  const Shape shape = builder->shape(x);
  DPIPE_CHECK_EQ(shape[-1] % params.groups, 0) << name << ": groups";
  const auto parameters = AddScaleAndBias(builder, name, shape[-1]);
  return builder->AddNode(std::make_unique<GroupNormNode>(params, shape), {x}, parameters);
}

ValueId AddLayerNorm(ProgramBuilder* builder, const std::string& name, ValueId x,
                     const ops::LayerNormParams& params) {
  const Shape shape = builder->shape(x);
  const auto parameters = AddScaleAndBias(builder, name, shape[-1]);
  return builder->AddNode(std::make_unique<LayerNormNode>(params, shape), {x}, parameters);
}

ValueId AddRmsNorm(ProgramBuilder* builder, const std::string& name, ValueId x,
                   const ops::RmsNormParams& params, int64_t width) {
  const Shape shape = builder->shape(x);
  if (width == 0) width = shape[-1];
  DPIPE_CHECK_EQ(shape[-1] % width, 0) << name << ": width";
  const ParameterId scale =
      builder->AddParameter(name + ".weight", Shape({width}), InitRule::Ones(), false);
  return builder->AddNode(std::make_unique<RmsNormNode>(params, shape, width), {x}, {scale});
}

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
