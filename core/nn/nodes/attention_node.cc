#include "core/nn/nodes/attention_node.h"

#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/ops/attention/attention.h"

namespace dpipe::nn {
namespace {

class AttentionNode : public Node {
 public:
  AttentionNode(const ops::AttentionParams& params, const Shape& q, const Shape& k)
      : params_(params), q_(q), k_(k) {}

  absl::string_view kind() const override { return "attention"; }
  ValueType output() const override { return {q_, Element::kCompute}; }
  NodeWork Work(const WorkContext& context) const override {
    const bool of_keys = context.WantsInputGrad(1) || context.WantsInputGrad(2);
    NodeWork work;
    work.ops = {roofline::AttentionWork(
        {q_[0], k_[0], q_[1], q_[1] / params_.num_heads, context.input_bytes[0],
         context.input_bytes[1] + context.input_bytes[2]},
        context.WantsInputGrad(0), of_keys)};
    work.saved_inputs = 0b111;
    work.saves_output = true;
    return work;
  }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    DPIPE_ASSIGN_OR_RETURN(
        ops::AttentionResult result,
        ops::AttentionForward(params_, inputs[0], inputs[1], inputs[2], saved != nullptr));
    if (saved != nullptr) *saved = {inputs[0], inputs[1], inputs[2], result.saved};
    return result.y;
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    const SavedTensors& s = *saved;
    DPIPE_ASSIGN_OR_RETURN(ops::AttentionGrads grads,
                           ops::AttentionInputGrad(params_, dy, s[0], s[1], s[2], s[3]));
    return std::vector<Tensor>{std::move(grads.dq), std::move(grads.dk), std::move(grads.dv)};
  }

 private:
  const ops::AttentionParams params_;
  const Shape q_, k_;
};

}  // namespace

ValueId AddAttention(ProgramBuilder* builder, ValueId q, ValueId k, ValueId v, int num_heads,
                     bool causal) {
  const Shape q_shape = builder->shape(q), k_shape = builder->shape(k);
  DPIPE_CHECK_EQ(q_shape.rank(), 2);
  DPIPE_CHECK_EQ(q_shape[1], k_shape[1]);
  DPIPE_CHECK_EQ(q_shape[1] % num_heads, 0) << "heads";
  DPIPE_CHECK_EQ(k_shape, builder->shape(v));
  ops::AttentionParams params;
  params.num_heads = num_heads;
  params.scale = ops::AttentionScale(q_shape[1], num_heads);
  params.causal = causal;
  return builder->AddNode(std::make_unique<AttentionNode>(params, q_shape, k_shape), {q, k, v});
}

}  // namespace dpipe::nn
