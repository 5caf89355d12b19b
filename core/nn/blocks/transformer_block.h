// The spatial transformer of Stable Diffusion's U-Net (diffusers Transformer2DModel with
// BasicTransformerBlocks): pixels attend to each other and to a text context.
#ifndef DPIPE_CORE_NN_BLOCKS_TRANSFORMER_BLOCK_H_
#define DPIPE_CORE_NN_BLOCKS_TRANSFORMER_BLOCK_H_

#include <string>

#include "core/nn/blocks/lora.h"
#include "core/nn/program_builder.h"

namespace dpipe::nn {

struct TransformerSpec {
  int num_heads = 1;
  int num_blocks = 1;
  int groups = 32;
  // Input and output projections are linear layers in v2.1 and 1x1 convolutions in v1.5. The
  // arithmetic is the same; only the shapes in the checkpoint differ.
  bool linear_projection = false;
  LayerKind kind = LayerKind::kTrainable;
  // Adapts the attentions' projections. Their layers are then trainable, with all other parameters
  // in them frozen.
  LoraSpec lora = {};
};

// x [H, W, C], context [T, C'] -> [H, W, C]. Adds layers `<name>.proj_in`; for each block
// `<name>.transformer_blocks.<i>.attn1`, `.attn2` and `.ff`; and `<name>.proj_out`.
ValueId AddTransformer(ProgramBuilder* builder, const std::string& name, ValueId x, ValueId context,
                       const TransformerSpec& spec);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_BLOCKS_TRANSFORMER_BLOCK_H_
