// FLUX.1's transformer as a Program (diffusers FluxTransformer2DModel): dev, with an embedding of
// the guidance scale, and schnell, without.
//
// Parameters are named and shaped as in diffusers' checkpoints. Layers, in order: x_embedder,
// time_text_embed, context_embedder, attn, ff and ff_context of every double block, one per single
// block, proj_out.
#ifndef DPIPE_MODELS_MMDIT_FLUX_TRANSFORMER_H_
#define DPIPE_MODELS_MMDIT_FLUX_TRANSFORMER_H_

#include <array>
#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/mmdit/mmdit_parts.h"

namespace dpipe::models {

// The configuration of FLUX.1's transformer (diffusers FluxTransformer2DModel), from its
// config.json.
//
// The defaults are diffusers' own.
struct FluxTransformerConfig {
  int64_t in_channels = 64;  // of a token: four pixels of latents
  int64_t num_layers = 19, num_single_layers = 38;
  int64_t head_size = 128, num_heads = 24;
  int64_t context_width = 4096;  // joint_attention_dim
  int64_t pooled_width = 768;    // pooled_projection_dim
  bool guidance_embeds = false;  // true for dev, false for schnell
  std::array<int64_t, 3> axes_dims_rope = {16, 56, 56};

  int64_t width() const { return num_heads * head_size; }
  int64_t latent_channels() const { return in_channels / 4; }
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or not supported.
absl::StatusOr<FluxTransformerConfig> ParseFluxTransformerConfig(const std::string& json,
                                                                 const std::string& source);
absl::StatusOr<FluxTransformerConfig> ReadFluxTransformerConfig(const std::string& path);

// Adds the layers from the noisy latents to the prediction [height, width, latent channels], noise
// - x0, in the compute dtype. Latents are packed into tokens, and tokens unpacked, here. `guidance`
// must be set exactly if the configuration has guidance_embeds; CheckMmditShape must accept the
// shape.
ValueId AddFluxTransformer(const FluxTransformerConfig& config, const MmditShape& shape,
                           nn::LayerKind kind, const MmditInputs& inputs,
                           nn::ProgramBuilder* builder, const nn::LoraSpec& lora = {});

MmditInputSizes FluxInputSizes(const FluxTransformerConfig& config);

// Builds a program of these layers. External inputs: "noisy_latents" fp32 [height, width, latent
// channels], "timesteps" fp32 [], "context" [context_length, joint_attention_dim] and "pooled"
// [pooled_projection_dim] in the compute dtype, and with guidance_embeds "guidance" fp32 [].
// Output: "prediction" fp32 [height, width, latent channels]. Returns CheckMmditShape's errors.
absl::StatusOr<nn::Program> BuildFluxTransformer(const FluxTransformerConfig& config,
                                                 const MmditShape& shape, nn::LayerKind kind,
                                                 const nn::LoraSpec& lora = {});

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_MMDIT_FLUX_TRANSFORMER_H_
