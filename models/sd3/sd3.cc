#include "models/sd3/sd3.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/clip_text/clip_text_encoder.h"
#include "models/latent/flow_parts.h"
#include "models/latent/trainable.h"
#include "models/sd3/sd3_denoiser.h"
#include "models/t5/t5_encoder.h"

namespace dpipe::models {
namespace {

constexpr const char* kClips[] = {"text_encoder", "text_encoder_2"};
constexpr const char* kClipTokenizers[] = {"tokenizer", "tokenizer_2"};
constexpr char kT5[] = "text_encoder_3";
constexpr int kUsualTokens = 256;

absl::Status Mismatch(const std::string& path, const std::string& what, int64_t value,
                      const std::string& own_what, int64_t own) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", what, " is ", value, ", but ", own_what, " is ", own));
}

// Reads one of the CLIPs and its sizes.
absl::Status ReadClip(const PipelineFolder& folder, int index, LatentParts* parts, Sd3Text* text) {
  const char* const name = kClips[index];
  if (folder.index().components.count(name) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(folder.path(), "/model_index.json names no ",
                                                   name, "; as in diffusers, only ", kT5,
                                                   " may be missing"));
  }
  const ClipTextOutputs outputs = {ClipStates::kPenultimate, /*pooled=*/true};
  DPIPE_ASSIGN_OR_RETURN(ClipTextEncoder clip,
                         ReadClipTextEncoder(folder, name, kClipTokenizers[index], outputs));
  if (!clip.config.with_projection) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.ConfigOf(name),
                     ": 'architectures' has no CLIPTextModelWithProjection; the transformer reads "
                     "projected pooled text"));
  }
  const int64_t length = clip.encoder.tokenizer->max_length();
  if (index == 0) text->clip_length = length;
  if (length != text->clip_length) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.path(), ": the tokenizers' model_max_length are ", text->clip_length,
                     " and ", length, ", but the CLIPs' states are joined; use equal lengths"));
  }
  text->clip_widths[index] = clip.config.hidden_size;
  text->pooled_widths[index] = clip.config.projection_size;
  parts->text_encoders.push_back(std::move(clip.encoder));
  return absl::OkStatus();
}

// Reads the text encoders, and checks that the transformer fits them.
absl::StatusOr<Sd3Text> ReadText(const Sd3TransformerConfig& transformer,
                                 const LoadModelOptions& options, LatentParts* parts) {
  const PipelineFolder& folder = parts->folder;
  Sd3Text text;
  for (int i = 0; i < 2; ++i) DPIPE_RETURN_IF_ERROR(ReadClip(folder, i, parts, &text));
  text.has_t5 = folder.index().components.count(kT5) > 0;
  text.t5_length = options.max_sequence_length > 0 ? options.max_sequence_length : kUsualTokens;
  if (text.has_t5) {
    DPIPE_ASSIGN_OR_RETURN(
        T5TextEncoder t5,
        ReadT5TextEncoder(folder, kT5, "tokenizer_3", {options.max_sequence_length, kUsualTokens}));
    text.t5_length = t5.encoder.tokenizer->max_length();
    if (t5.config.width != transformer.context_width) {
      return Mismatch(folder.path(), absl::StrCat("the d_model of ", kT5), t5.config.width,
                      "the transformer's joint_attention_dim", transformer.context_width);
    }
    parts->text_encoders.push_back(std::move(t5.encoder));
  }
  const int64_t clip = text.clip_widths[0] + text.clip_widths[1];
  if (clip > transformer.context_width) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.path(), ": the CLIPs' hidden_size is ", text.clip_widths[0], " and ",
                     text.clip_widths[1], ", together ", clip,
                     ", but the transformer's joint_attention_dim is ", transformer.context_width));
  }
  const int64_t pooled = text.pooled_widths[0] + text.pooled_widths[1];
  if (pooled != transformer.pooled_width) {
    return Mismatch(folder.path(), "the sum of the CLIPs' projection_dim", pooled,
                    "the transformer's pooled_projection_dim", transformer.pooled_width);
  }
  return text;
}

}  // namespace

absl::StatusOr<LatentParts> ReadSd3(const std::string& path, const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const PipelineFolder folder, PipelineFolder::Open(path));
  DPIPE_RETURN_IF_ERROR(folder.CheckClass({kSd3Class}));
  LatentParts parts(folder);
  diffusion::FlowObjectiveOptions objective;
  objective.training.density = diffusion::FlowDensity::kLogitNormal;
  objective.positions_per_token = kMmditPatch * kMmditPatch;
  DPIPE_RETURN_IF_ERROR(ReadFlowObjective(options, "Stable Diffusion 3", objective, &parts));
  const std::string config_path = folder.ConfigOf("transformer");
  DPIPE_ASSIGN_OR_RETURN(const Sd3TransformerConfig transformer,
                         ReadSd3TransformerConfig(config_path));
  if (transformer.in_channels != transformer.out_channels) {
    return Mismatch(config_path, "'in_channels'", transformer.in_channels, "'out_channels'",
                    transformer.out_channels);
  }
  DPIPE_ASSIGN_OR_RETURN(parts.vae, ReadVae(folder, transformer.in_channels, "transformer"));
  DPIPE_ASSIGN_OR_RETURN(const Sd3Text text, ReadText(transformer, options, &parts));
  DPIPE_ASSIGN_OR_RETURN(
      parts.image_size,
      ChooseImageSize(options.image_size, transformer.sample_size, parts.vae, config_path));
  parts.denoiser = std::make_shared<Sd3Denoiser>(transformer, text);
  parts.lora = WithMmditLoraTargets(options.lora);
  return parts;
}

ModelKind Sd3Kind() { return LatentKind("sd3", kSd3Class, ReadSd3); }

}  // namespace dpipe::models
