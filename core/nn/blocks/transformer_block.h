// Blocks of transformers.
#ifndef DPIPE_CORE_NN_BLOCKS_TRANSFORMER_BLOCK_H_
#define DPIPE_CORE_NN_BLOCKS_TRANSFORMER_BLOCK_H_

#include <optional>
#include <string>

#include "core/nn/blocks/lora.h"
#include "core/nn/program_builder.h"

namespace dpipe::nn {

// Attention with its projections, within the caller's current layer:

struct AttentionSpec {
  int num_heads = 1;
  bool causal = false;
  bool qkv_bias = false;
  // Checkpoint names of the four projections.
  std::string q = "to_q", k = "to_k", v = "to_v", out = "to_out.0";
  LoraSpec lora = {};                            // of all four projections
  std::optional<ValueId> addend = std::nullopt;  // [Tq, C]: added to the result
};

// Takes queries from x [Tq, C], keys and values from `context` [Tk, C'] (x itself for
// self-attention) -> [Tq, C]. The output projection always has a bias.
ValueId AddAttentionBlock(ProgramBuilder* builder, const std::string& name, ValueId x,
                          ValueId context, const AttentionSpec& spec);

// The spatial transformer of Stable Diffusion's U-Net (diffusers Transformer2DModel with
// BasicTransformerBlocks): pixels attend to each other and to a text context.

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
