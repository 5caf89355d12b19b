#include "core/nn/nodes/norm_nodes.h"

#include <memory>
#include <utility>

#include "core/base/check.h"

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

}  // namespace dpipe::nn
