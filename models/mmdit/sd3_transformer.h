// Stable Diffusion 3's and 3.5's transformer as a Program (diffusers SD3Transformer2DModel).
//
// Parameters are named and shaped as in diffusers' checkpoints. These also contain the position
// table, "pos_embed.pos_embed"; the program computes it (core/ops/embedding/positions.h).
// Layers, in order: pos_embed, time_text_embed, context_embedder, those of the blocks (attn, attn2
// with dual attention, ff, ff_context), proj_out.
#ifndef DPIPE_MODELS_MMDIT_SD3_TRANSFORMER_H_
#define DPIPE_MODELS_MMDIT_SD3_TRANSFORMER_H_

#include <memory>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "core/tensor/tensor.h"
#include "models/mmdit/mmdit_parts.h"
#include "models/mmdit/sd3_transformer_config.h"

namespace dpipe::models {

// Returns InvalidArgument with the sizes if the configuration does not allow them.
absl::Status CheckSd3Shape(const Sd3TransformerConfig& config, const MmditShape& shape);

// Adds the layers from the noisy latents to the prediction [height, width, out_channels] in the
// compute dtype: noise - x0, for Stable Diffusion 3. CheckSd3Shape must accept the shape.
ValueId AddSd3Transformer(const Sd3TransformerConfig& config, const MmditShape& shape,
                          nn::LayerKind kind, const MmditInputs& inputs,
                          nn::ProgramBuilder* builder, const nn::LoraSpec& lora = {});

// Builds a program of these layers. External inputs: "noisy_latents" fp32 [height, width,
// in_channels], "timesteps" fp32 [], "context" [context_length, joint_attention_dim] and "pooled"
// [pooled_projection_dim] in the compute dtype. Output: "prediction" fp32 [height, width,
// out_channels]. Returns CheckSd3Shape's errors.
absl::StatusOr<nn::Program> BuildSd3Transformer(const Sd3TransformerConfig& config,
                                                const MmditShape& shape, nn::LayerKind kind,
                                                const nn::LoraSpec& lora = {});

// Returns the table that checkpoints store as "pos_embed.pos_embed", fp32
// [1, pos_embed_max_size^2, width]: to write a checkpoint that diffusers loads, or to compare one
// with what the program computes. Hundreds of megabytes for the public models.
absl::StatusOr<Tensor> Sd3PositionTable(const Sd3TransformerConfig& config,
                                        const std::shared_ptr<Device>& device);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_MMDIT_SD3_TRANSFORMER_H_
