// Stable Diffusion 3's and 3.5's transformer as a Program (diffusers SD3Transformer2DModel).
//
// Parameters are named and shaped as in diffusers' checkpoints. These also contain the position
// table, "pos_embed.pos_embed"; the program computes it (core/ops/embedding/positions.h).
// Layers, in order: pos_embed, time_text_embed, context_embedder, those of the blocks (attn, attn2
// with dual attention, ff, ff_context), proj_out.
#ifndef DPIPE_MODELS_MMDIT_SD3_TRANSFORMER_H_
#define DPIPE_MODELS_MMDIT_SD3_TRANSFORMER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "core/tensor/tensor.h"
#include "models/mmdit/mmdit_parts.h"

namespace dpipe::models {

// The configuration of Stable Diffusion 3's transformer (diffusers SD3Transformer2DModel), from its
// config.json.
//
// The defaults are diffusers' own.
struct Sd3TransformerConfig {
  int64_t sample_size = 128;  // height and width of the latents to which positions are scaled
  int64_t in_channels = 16, out_channels = 16;
  int64_t num_layers = 18;
  int64_t head_size = 64, num_heads = 18;
  int64_t context_width = 4096;     // joint_attention_dim
  int64_t pooled_width = 2048;      // pooled_projection_dim
  int64_t pos_embed_max_size = 96;  // rows and columns of the position table, in tokens
  bool qk_norm = false;
  std::vector<bool> dual_attention;  // by layer

  int64_t width() const { return num_heads * head_size; }
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or not supported.
absl::StatusOr<Sd3TransformerConfig> ParseSd3TransformerConfig(const std::string& json,
                                                               const std::string& source);
absl::StatusOr<Sd3TransformerConfig> ReadSd3TransformerConfig(const std::string& path);

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
