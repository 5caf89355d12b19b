#include "models/flux/flux.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/clip_text/clip_text_encoder.h"
#include "models/flux/flux_denoiser.h"
#include "models/latent/flow_parts.h"
#include "models/latent/trainable.h"
#include "models/t5/t5_encoder.h"

namespace dpipe::models {
namespace {

constexpr int kDevTokens = 512, kSchnellTokens = 256;

absl::Status CheckWidth(const std::string& path, const std::string& encoder, const char* key,
                        int64_t width, const char* own_key, int64_t own) {
  if (width == own) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": the ", key, " of ", encoder, " is ",
                                                 width, ", but the transformer's ", own_key, " is ",
                                                 own));
}

// Reads both text encoders, and checks that the transformer fits them.
absl::StatusOr<std::vector<TextEncoder>> ReadTextEncoders(const PipelineFolder& folder,
                                                          const FluxTransformerConfig& transformer,
                                                          const LoadModelOptions& options) {
  ClipTextOutputs pooled;
  pooled.states = ClipStates::kNone;
  pooled.pooled = true;
  DPIPE_ASSIGN_OR_RETURN(const ClipTextEncoder clip,
                         ReadClipTextEncoder(folder, "text_encoder", "tokenizer", pooled));
  if (clip.config.with_projection) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.ConfigOf("text_encoder"),
                     ": a CLIPTextModelWithProjection is not supported; "
                     "FLUX.1 has a CLIPTextModel"));
  }
  DPIPE_RETURN_IF_ERROR(CheckWidth(folder.path(), "text_encoder", "hidden_size",
                                   clip.config.hidden_size, "pooled_projection_dim",
                                   transformer.pooled_width));
  const T5Length length = {options.max_sequence_length,
                           transformer.guidance_embeds ? kDevTokens : kSchnellTokens};
  DPIPE_ASSIGN_OR_RETURN(const T5TextEncoder t5,
                         ReadT5TextEncoder(folder, "text_encoder_2", "tokenizer_2", length));
  DPIPE_RETURN_IF_ERROR(CheckWidth(folder.path(), "text_encoder_2", "d_model", t5.config.width,
                                   "joint_attention_dim", transformer.context_width));
  return std::vector<TextEncoder>{clip.encoder, t5.encoder};
}

}  // namespace

absl::StatusOr<LatentParts> ReadFlux(const std::string& path, const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const PipelineFolder folder, PipelineFolder::Open(path));
  DPIPE_RETURN_IF_ERROR(folder.CheckClass({kFluxClass}));
  LatentParts parts(folder);
  diffusion::FlowObjectiveOptions objective;
  objective.spacing = diffusion::FlowSchedule::Spacing::kFull;
  objective.positions_per_token = kMmditPatch * kMmditPatch;
  DPIPE_RETURN_IF_ERROR(ReadFlowObjective(options, "FLUX.1", objective, &parts));
  DPIPE_ASSIGN_OR_RETURN(const FluxTransformerConfig transformer,
                         ReadFluxTransformerConfig(folder.ConfigOf("transformer")));
  DPIPE_ASSIGN_OR_RETURN(parts.vae, ReadVae(folder, transformer.latent_channels(), "transformer"));
  DPIPE_ASSIGN_OR_RETURN(parts.text_encoders, ReadTextEncoders(folder, transformer, options));
  DPIPE_ASSIGN_OR_RETURN(
      parts.image_size,
      ChooseImageSize(options.image_size, parts.vae.sample_size / parts.vae.downscale(), parts.vae,
                      folder.ConfigOf("vae")));
  parts.denoiser = std::make_shared<FluxDenoiser>(
      transformer, parts.text_encoders.back().tokenizer->max_length());
  parts.lora = WithMmditLoraTargets(options.lora);
  return parts;
}

ModelKind FluxKind() { return LatentKind("flux", kFluxClass, ReadFlux); }

}  // namespace dpipe::models
