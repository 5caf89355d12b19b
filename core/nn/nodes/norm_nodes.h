// Group, layer and RMS normalisation as nodes.
#ifndef DPIPE_CORE_NN_NODES_NORM_NODES_H_
#define DPIPE_CORE_NN_NODES_NORM_NODES_H_

#include <string>

#include "core/nn/program_builder.h"
#include "core/ops/norm/group_norm.h"
#include "core/ops/norm/layer_norm.h"
#include "core/ops/norm/rms_norm.h"

namespace dpipe::nn {

// x [..., C] -> the same shape. Parameters `<name>.weight` and `<name>.bias`, [C]. Save x and the
// statistics, then a few numbers per channel for the weight gradient.
ValueId AddGroupNorm(ProgramBuilder* builder, const std::string& name, ValueId x,
                     const ops::GroupNormParams& params);
ValueId AddLayerNorm(ProgramBuilder* builder, const std::string& name, ValueId x,
                     const ops::LayerNormParams& params);

// x [..., n * width] -> the same shape. Normalizes each run of `width` elements: 0, the default,
// means the whole last dimension; the size of an attention head means that each head is normalized
// by itself. Parameter `<name>.weight`, [width]. Saves x and a number per run, then a few numbers
// per element of the weight.
ValueId AddRmsNorm(ProgramBuilder* builder, const std::string& name, ValueId x,
                   const ops::RmsNormParams& params, int64_t width = 0);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_NORM_NODES_H_
