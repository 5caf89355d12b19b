// Norms, and modulation and gates of channels by vectors, as nodes.
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

// x [..., n * width] -> the same shape. Normalizes each run of `width` elements: 0, the default,
// means the whole last dimension; the size of an attention head means that each head is normalized
// by itself. Parameter `<name>.weight`, [width]. Saves x and a number per run, then a few numbers
// per element of the weight.
ValueId AddRmsNorm(ProgramBuilder* builder, const std::string& name, ValueId x,
                   const ops::RmsNormParams& params, int64_t width = 0);

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

#endif  // DPIPE_CORE_NN_NODES_NORM_NODES_H_
