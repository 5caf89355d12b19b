// Nodes without parameters that move, join, sum, convert and resize values.
#ifndef DPIPE_CORE_NN_NODES_SHAPE_NODES_H_
#define DPIPE_CORE_NN_NODES_SHAPE_NODES_H_

#include <vector>

#include "core/nn/program_builder.h"
#include "core/ops/image/rearrange.h"

namespace dpipe::nn {

// a + b; shapes must be equal. Saves nothing.
ValueId AddSum(ProgramBuilder* builder, ValueId a, ValueId b);

// Concatenates along the last dimension; all others must be equal. Saves nothing.
ValueId AddConcat(ProgramBuilder* builder, const std::vector<ValueId>& parts);

// x [..., C] -> [..., width]: the elements from `begin` on. Saves nothing.
ValueId AddSlice(ProgramBuilder* builder, ValueId x, int64_t begin, int64_t width);

// a [T, C], b [U, C] -> [T + U, C]. Saves nothing.
ValueId AddJoinTokens(ProgramBuilder* builder, ValueId a, ValueId b);

// x [T, C] -> [count, C]: the tokens from `begin` on. Saves nothing.
ValueId AddSliceTokens(ProgramBuilder* builder, ValueId x, int64_t begin, int64_t count);

// x [H, W, C] -> [(H / size) (W / size), C size^2]: squares as tokens. Saves nothing.
ValueId AddPatchify(ProgramBuilder* builder, ValueId x, ops::PatchOrder order, int64_t size);

// The inverse: [(height / size) (width / size), C size^2] -> [height, width, C].
ValueId AddUnpatchify(ProgramBuilder* builder, ValueId patches, ops::PatchOrder order, int64_t size,
                      int64_t height, int64_t width);

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

// x [2H, 2W, C] -> [H, W, C], means of 2 x 2 squares. Saves nothing.
ValueId AddAveragePool2x(ProgramBuilder* builder, ValueId x);

// x [H, W, C] -> [height, width, C], bilinear (ops/image/resize.h). Saves nothing.
ValueId AddResizeBilinear(ProgramBuilder* builder, ValueId x, int64_t height, int64_t width);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_SHAPE_NODES_H_
