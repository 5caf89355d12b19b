// Positions of tokens as nodes, without parameters.
#ifndef DPIPE_CORE_NN_NODES_POSITION_NODES_H_
#define DPIPE_CORE_NN_NODES_POSITION_NODES_H_

#include "core/nn/program_builder.h"
#include "core/ops/embedding/position_table.h"
#include "core/ops/embedding/rotary_embedding.h"

namespace dpipe::nn {

// Queries or keys x [T, heads * head_size] -> the same shape, with every head rotated by its
// token's position. Saves nothing.
ValueId AddRotaryEmbedding(ProgramBuilder* builder, ValueId x, const ops::RotaryParams& params);

// x [rows * columns, C] -> x + sinusoids of the tokens' positions. Saves nothing.
ValueId AddPositionTable(ProgramBuilder* builder, ValueId x,
                         const ops::PositionTableParams& params);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_POSITION_NODES_H_
