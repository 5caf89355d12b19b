// Multi-head attention as a node; the projections are linear nodes.
#ifndef DPIPE_CORE_NN_NODES_ATTENTION_NODE_H_
#define DPIPE_CORE_NN_NODES_ATTENTION_NODE_H_

#include "core/nn/program_builder.h"

namespace dpipe::nn {

// q [Tq, C]; k, v [Tk, C] -> [Tq, C], scaled by 1 / sqrt(C / num_heads). Saves q, k, v and the
// tensors that the op needs.
ValueId AddAttention(ProgramBuilder* builder, ValueId q, ValueId k, ValueId v, int num_heads,
                     bool causal = false);

// The same with a relative bias, kF32 [num_heads, Tq + Tk - 1] (core/ops/attention/attention.h),
// which is saved too, and with scores that are not scaled: T5's attention.
ValueId AddAttentionWithBias(ProgramBuilder* builder, ValueId q, ValueId k, ValueId v,
                             ValueId relative_bias, int num_heads);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_ATTENTION_NODE_H_
