// Scale and shift of channels by a vector, as a node.
#ifndef DPIPE_CORE_NN_NODES_MODULATE_NODE_H_
#define DPIPE_CORE_NN_NODES_MODULATE_NODE_H_

#include "core/nn/program_builder.h"

namespace dpipe::nn {

// x [..., C], v [2C] -> x (1 + v[0:C]) + v[C:2C] at every position, followed by SiLU if `silu`.
// Saves x and v.
ValueId AddModulation(ProgramBuilder* builder, ValueId x, ValueId v, bool silu);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_MODULATE_NODE_H_
