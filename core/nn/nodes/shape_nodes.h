// Nodes that move, join, sum and convert values without parameters.
#ifndef DPIPE_CORE_NN_NODES_SHAPE_NODES_H_
#define DPIPE_CORE_NN_NODES_SHAPE_NODES_H_

#include <vector>

#include "core/nn/program_builder.h"

namespace dpipe::nn {

// a + b, of one shape. Saves nothing.
ValueId AddSum(ProgramBuilder* builder, ValueId a, ValueId b);

// Along the last dimension; all others equal. Saves nothing.
ValueId AddConcat(ProgramBuilder* builder, const std::vector<ValueId>& parts);

// x [H, W, C] -> [2H, 2W, C], pixels repeated. Saves nothing.
ValueId AddUpsample2x(ProgramBuilder* builder, ValueId x);

// The same elements in another shape of a sample; shares storage.
ValueId AddReshape(ProgramBuilder* builder, ValueId x, const Shape& shape);

// factor * x.
ValueId AddScale(ProgramBuilder* builder, ValueId x, float factor);

// x itself, through which no gradient flows. Shares storage.
ValueId AddDetach(ProgramBuilder* builder, ValueId x);

// To another element type: kF32 and kCompute. Shares storage where they are the same.
ValueId AddCast(ProgramBuilder* builder, ValueId x, Element element);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_SHAPE_NODES_H_
