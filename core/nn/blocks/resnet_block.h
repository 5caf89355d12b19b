// The residual block of U-Nets and VAEs (diffusers ResnetBlock2D).
//
//   h = conv1(silu(norm1(x))) [+ time_emb_proj(t)]
//   y = conv_shortcut(x) or x  +  conv2(silu(norm2(h)))
//
// Variations in pixel-space U-Nets: the time embedding may scale and shift norm2(h) instead. The
// block may halve or double the image; h is then resized before conv1, and x before it is added.
#ifndef DPIPE_CORE_NN_BLOCKS_RESNET_BLOCK_H_
#define DPIPE_CORE_NN_BLOCKS_RESNET_BLOCK_H_

#include <optional>
#include <string>

#include "core/nn/program_builder.h"

namespace dpipe::nn {

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

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_BLOCKS_RESNET_BLOCK_H_
