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
    work.saved_inputs = context.input_bytes.size() == 4 ? 0b1111 : 0b111;
    work.saves_output = true;
    return work;
  }

  absl::StatusOr<Tensor> Forward(const NodeContext&, absl::Span<const Tensor> inputs,
                                 SavedTensors* saved) const override {
    const Tensor bias = inputs.size() == 4 ? inputs[3] : Tensor();
    DPIPE_ASSIGN_OR_RETURN(
        ops::AttentionResult result,
        ops::AttentionForward(params_, inputs[0], inputs[1], inputs[2], saved != nullptr, bias));
    if (saved != nullptr) {
      *saved = {inputs[0], inputs[1], inputs[2], result.saved};
      if (bias.defined()) saved->push_back(bias);
    }
    return result.y;
  }

  absl::StatusOr<std::vector<Tensor>> InputGrad(const NodeContext&, SavedTensors* saved,
                                                const Tensor& dy) const override {
    const SavedTensors& s = *saved;
    DPIPE_ASSIGN_OR_RETURN(ops::AttentionGrads grads,
                           ops::AttentionInputGrad(params_, dy, s[0], s[1], s[2], s[3],
                                                   s.size() == 5 ? s[4] : Tensor()));
    std::vector<Tensor> result = {std::move(grads.dq), std::move(grads.dk), std::move(grads.dv)};
    if (s.size() == 5) result.push_back(std::move(grads.drelative_bias));
    return result;
  }

 private:
  const ops::AttentionParams params_;
  const Shape q_, k_;
};

// `inputs`: q, k, v and perhaps the bias.
ValueId AddNode(ProgramBuilder* builder, const std::vector<ValueId>& inputs,
                const ops::AttentionParams& params) {
  const Shape q = builder->shape(inputs[0]), k = builder->shape(inputs[1]);
  DPIPE_CHECK_EQ(q.rank(), 2);
  DPIPE_CHECK_EQ(q[1], k[1]);
  DPIPE_CHECK_EQ(q[1] % params.num_heads, 0) << "heads";
  DPIPE_CHECK_EQ(k, builder->shape(inputs[2]));
  return builder->AddNode(std::make_unique<AttentionNode>(params, q, k), inputs);
}

}  // namespace

ValueId AddAttention(ProgramBuilder* builder, ValueId q, ValueId k, ValueId v, int num_heads,
                     bool causal) {
  const float scale = ops::AttentionScale(builder->shape(q)[1], num_heads);
  return AddNode(builder, {q, k, v}, {num_heads, scale, causal});
}

ValueId AddAttentionWithBias(ProgramBuilder* builder, ValueId q, ValueId k, ValueId v,
                             ValueId relative_bias, int num_heads) {
  DPIPE_CHECK_EQ(builder->shape(relative_bias),
                 (Shape{num_heads, builder->shape(q)[0] + builder->shape(k)[0] - 1}));
  return AddNode(builder, {q, k, v, relative_bias}, {num_heads, 1.0f, false});
}

}  // namespace dpipe::nn
