// Changing an image's resolution (diffusers Downsample2D and Upsample2D with convolutions).
#ifndef DPIPE_CORE_NN_BLOCKS_SAMPLING_BLOCKS_H_
#define DPIPE_CORE_NN_BLOCKS_SAMPLING_BLOCKS_H_

#include <string>

#include "core/nn/program_builder.h"

namespace dpipe::nn {

// Adds layer `<name>`: a 3x3 convolution with stride 2, [H, W, C] -> [H/2, W/2, C]. `asymmetric`
// pads only bottom and right, as VAEs do; U-Nets pad all sides. H and W must be even.
ValueId AddDownsample(ProgramBuilder* builder, const std::string& name, ValueId x, bool asymmetric,
                      LayerKind kind);

// Adds layer `<name>`: pixels repeated 2x, then a 3x3 convolution, [H, W, C] -> [2H, 2W, C].
ValueId AddUpsample(ProgramBuilder* builder, const std::string& name, ValueId x, LayerKind kind);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_BLOCKS_SAMPLING_BLOCKS_H_
