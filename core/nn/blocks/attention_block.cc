#include "core/nn/blocks/attention_block.h"

#include "core/nn/nodes/attention_node.h"

namespace dpipe::nn {

ValueId AddAttentionBlock(ProgramBuilder* builder, const std::string& name, ValueId x,
                          ValueId context, const AttentionSpec& spec) {
  const int64_t width = builder->shape(x)[1];
  const LinearSpec projection{width, spec.qkv_bias};
  const auto project = [&](const std::string& part, ValueId from) {
    return AddLinearWithLora(builder, name + "." + part, from, projection, spec.lora);
  };
  const ValueId q = project(spec.q, x);
  const ValueId k = project(spec.k, context);
  const ValueId v = project(spec.v, context);
  const ValueId y = AddAttention(builder, q, k, v, spec.num_heads, spec.causal);
  LinearSpec out{width};
  out.addend = spec.addend;
  return AddLinearWithLora(builder, name + "." + spec.out, y, out, spec.lora);
}

}  // namespace dpipe::nn
