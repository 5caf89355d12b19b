// Group and layer normalisation as nodes.
#ifndef DPIPE_CORE_NN_NODES_NORM_NODES_H_
#define DPIPE_CORE_NN_NODES_NORM_NODES_H_

#include <string>

#include "core/nn/program_builder.h"
#include "core/ops/norm/group_norm.h"
#include "core/ops/norm/layer_norm.h"

namespace dpipe::nn {

// x [..., C] -> the same shape. Parameters `<name>.weight` and `<name>.bias`, [C]. Save x and the
// statistics, then a few numbers per channel for the weight gradient.
ValueId AddGroupNorm(ProgramBuilder* builder, const std::string& name, ValueId x,
                     const ops::GroupNormParams& params);
ValueId AddLayerNorm(ProgramBuilder* builder, const std::string& name, ValueId x,
                     const ops::LayerNormParams& params);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_NORM_NODES_H_
