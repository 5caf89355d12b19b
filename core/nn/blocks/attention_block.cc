#include "core/nn/blocks/attention_block.h"

#include "core/nn/nodes/attention_node.h"
#include "core/nn/nodes/linear_node.h"

namespace dpipe::nn {

ValueId AddAttentionBlock(ProgramBuilder* builder, const std::string& name, ValueId x,
                          ValueId context, const AttentionSpec& spec) {
  const int64_t width = builder->shape(x)[1];
  const LinearSpec projection{width, spec.qkv_bias};
  const ValueId q = AddLinear(builder, name + "." + spec.q, x, projection);
  const ValueId k = AddLinear(builder, name + "." + spec.k, context, projection);
  const ValueId v = AddLinear(builder, name + "." + spec.v, context, projection);
  const ValueId y = AddAttention(builder, q, k, v, spec.num_heads, spec.causal);
  return AddLinear(builder, name + "." + spec.out, y, {width});
}

}  // namespace dpipe::nn
