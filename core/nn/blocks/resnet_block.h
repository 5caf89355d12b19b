// The blocks of U-Nets and VAEs.
#ifndef DPIPE_CORE_NN_BLOCKS_RESNET_BLOCK_H_
#define DPIPE_CORE_NN_BLOCKS_RESNET_BLOCK_H_

#include <optional>
#include <string>

#include "core/nn/program_builder.h"

namespace dpipe::nn {

// The residual block of U-Nets and VAEs (diffusers ResnetBlock2D).
//
//   h = conv1(silu(norm1(x))) [+ time_emb_proj(t)]
//   y = conv_shortcut(x) or x  +  conv2(silu(norm2(h)))
//
// Variations in pixel-space U-Nets: the time embedding may scale and shift norm2(h) instead. The
// block may halve or double the image; h is then resized before conv1, and x before it is added.

enum class Resample { kNone, kDown, kUp };

struct ResnetSpec {
  int64_t out_channels = 0;
  int groups = 32;
  float eps = 1e-5f;
  LayerKind kind = LayerKind::kTrainable;
  // The time embedding [C_t], after SiLU; VAEs have none.
  std::optional<ValueId> time;
  // A U-Net's skip connection, concatenated to x along the channels first.
  std::optional<ValueId> skip;
  // With `time`: silu(norm2(h) (1 + scale) + shift), both from time_emb_proj(t) [2 out_channels].
  bool scale_shift = false;
  // How the image is resized: kDown takes means of 2 x 2 squares, kUp repeats pixels.
  Resample resample = Resample::kNone;
};

// Adds layers `<name>.conv1`, `<name>.conv_shortcut` (if channels change) and `<name>.conv2`. x [H,
// W, C] -> [H, W, out_channels], or half or twice as high and wide.
ValueId AddResnetBlock(ProgramBuilder* builder, const std::string& name, ValueId x,
                       const ResnetSpec& spec);

// Changing an image's resolution (diffusers Downsample2D and Upsample2D with convolutions).

// Adds layer `<name>`: a 3x3 convolution with stride 2, [H, W, C] -> [H/2, W/2, C]. `asymmetric`
// pads only bottom and right, as VAEs do; U-Nets pad all sides. H and W must be even.
ValueId AddDownsample(ProgramBuilder* builder, const std::string& name, ValueId x, bool asymmetric,
                      LayerKind kind);

// Adds layer `<name>`: pixels repeated 2x, then a 3x3 convolution, [H, W, C] -> [2H, 2W, C].
ValueId AddUpsample(ProgramBuilder* builder, const std::string& name, ValueId x, LayerKind kind);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_BLOCKS_RESNET_BLOCK_H_
