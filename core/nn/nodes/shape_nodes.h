// Nodes without parameters that move, join, sum and convert values.
#ifndef DPIPE_CORE_NN_NODES_SHAPE_NODES_H_
#define DPIPE_CORE_NN_NODES_SHAPE_NODES_H_

#include <vector>

#include "core/nn/program_builder.h"

namespace dpipe::nn {

// a + b; shapes must be equal. Saves nothing.
ValueId AddSum(ProgramBuilder* builder, ValueId a, ValueId b);

// Concatenates along the last dimension; all others must be equal. Saves nothing.
ValueId AddConcat(ProgramBuilder* builder, const std::vector<ValueId>& parts);

// x [H, W, C] -> [2H, 2W, C], pixels repeated. Saves nothing.
ValueId AddUpsample2x(ProgramBuilder* builder, ValueId x);

// Reshapes each sample; shares storage.
ValueId AddReshape(ProgramBuilder* builder, ValueId x, const Shape& shape);

// factor * x.
ValueId AddScale(ProgramBuilder* builder, ValueId x, float factor);

// Returns x itself and blocks its gradient. Shares storage.
ValueId AddDetach(ProgramBuilder* builder, ValueId x);

// Converts between kF32 and kCompute. Shares storage if they are the same.
ValueId AddCast(ProgramBuilder* builder, ValueId x, Element element);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_SHAPE_NODES_H_
