// Scale, shift and gates of channels by vectors, as nodes.
#ifndef DPIPE_CORE_NN_NODES_MODULATE_NODE_H_
#define DPIPE_CORE_NN_NODES_MODULATE_NODE_H_

#include "core/nn/program_builder.h"
#include "core/ops/norm/modulated_layer_norm.h"

namespace dpipe::nn {

// x [..., C], v [2C] -> x (1 + v[0:C]) + v[C:2C] at every position, followed by SiLU if `silu`.
// Saves x and v.
ValueId AddModulation(ProgramBuilder* builder, ValueId x, ValueId v, bool silu);

// x [..., C], v [2C] -> layer norm of x over C, without parameters, then scale and shift by v.
// Saves x, its statistics and the scale.
ValueId AddModulatedLayerNorm(ProgramBuilder* builder, ValueId x, ValueId v,
                              const ops::ModulatedLayerNormParams& params);

// x and h [..., C], gate [C] -> x + gate * h. Saves gate and h.
ValueId AddGatedSum(ProgramBuilder* builder, ValueId x, ValueId gate, ValueId h);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_MODULATE_NODE_H_
