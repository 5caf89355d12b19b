// Activations and gates as nodes.
#ifndef DPIPE_CORE_NN_NODES_ACTIVATION_NODES_H_
#define DPIPE_CORE_NN_NODES_ACTIVATION_NODES_H_

#include "core/nn/program_builder.h"
#include "core/ops/elementwise/elementwise.h"

namespace dpipe::nn {

// x -> the same shape. Saves x.
ValueId AddActivation(ProgramBuilder* builder, ValueId x, ops::Activation activation);

// x [..., 2C] -> [..., C]: value * gelu(gate). Saves x.
ValueId AddGeglu(ProgramBuilder* builder, ValueId x);

// a * b; shapes must be equal. Saves both.
ValueId AddProduct(ProgramBuilder* builder, ValueId a, ValueId b);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_ACTIVATION_NODES_H_
