#include "models/sdxl/sdxl.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/clip_text/clip_text_encoder.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/latent/trainable.h"
#include "models/trainable/trainable_model.h"
#include "models/unet/unet.h"
#include "models/unet/unet_denoiser.h"

namespace dpipe::models {
namespace {

constexpr const char* kEncoders[] = {"text_encoder", "text_encoder_2"};
constexpr const char* kTokenizers[] = {"tokenizer", "tokenizer_2"};
constexpr ClipTextOutputs kOutputs[] = {{ClipStates::kPenultimate, /*pooled=*/false},
                                        {ClipStates::kPenultimate, /*pooled=*/true}};

absl::Status CheckEncoders(const PipelineFolder& folder) {
  for (const char* name : kEncoders) {
    if (folder.index().components.count(name) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        folder.path(), "/model_index.json names no ", name,
        "; the refiner is not supported, only models with ", kEncoders[0], " and ", kEncoders[1]));
  }
  return absl::OkStatus();
}

absl::StatusOr<UNetConfig> ReadUNet(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(UNetConfig unet, ReadUNetConfig(path));
  DPIPE_RETURN_IF_ERROR(CheckUNetChannels(unet, path));
  if (unet.has_text_time()) return unet;
  return absl::InvalidArgumentError(absl::StrCat(path, ": 'addition_embed_type' is null; a ",
                                                 kStableDiffusionXlClass, " has \"text_time\""));
}

// Reads both text encoders and wires their outputs to the U-Net's inputs. Their states are joined
// along the channels, in order.
absl::Status ReadTextEncoders(LatentParts* parts, UNetSetup* unet) {
  const PipelineFolder& folder = parts->folder;
  unet->embeddings.clear();
  for (size_t i = 0; i < 2; ++i) {
    DPIPE_ASSIGN_OR_RETURN(const ClipTextEncoder text,
                           ReadClipTextEncoder(folder, kEncoders[i], kTokenizers[i], kOutputs[i]));
    unet->context_widths.push_back(text.config.hidden_size);
    unet->embeddings[ContextInputName(i)] = {kEncoders[i], "penultimate_hidden_state"};
    const int64_t length = text.encoder.tokenizer->max_length();
    if (i == 0) unet->context_length = length;
    if (length != unet->context_length) {
      return absl::InvalidArgumentError(absl::StrCat(
          folder.path(), ": the tokenizers' model_max_length are ", unet->context_length, " and ",
          length, ", but the text encoders' states are joined; use equal lengths"));
    }
    parts->text_encoders.push_back(text.encoder);
    if (!kOutputs[i].pooled) continue;
    const std::string path = folder.ConfigOf(kEncoders[i]);
    if (!text.config.with_projection) {
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          ": 'architectures' has no CLIPTextModelWithProjection; the U-Net reads projected "
          "pooled text"));
    }
    if (text.config.projection_size != unet->config.pooled_width) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": 'projection_dim' is ", text.config.projection_size,
                       ", but the U-Net reads ", unet->config.pooled_width,
                       " numbers of pooled text (its projection_class_embeddings_input_dim less ",
                       kNumTimeIds, " x addition_time_embed_dim)"));
    }
    unet->embeddings["pooled"] = {kEncoders[i], "text_embeds"};
  }
  const int64_t joined = unet->context_widths[0] + unet->context_widths[1];
  if (joined == unet->config.cross_attention_dim) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(folder.path(), ": the text encoders' hidden_size is ", unet->context_widths[0],
                   " and ", unet->context_widths[1], ", together ", joined,
                   ", but the U-Net's cross_attention_dim is ", unet->config.cross_attention_dim));
}

}  // namespace

absl::StatusOr<LatentParts> ReadStableDiffusionXl(const std::string& path,
                                                  const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const PipelineFolder folder, PipelineFolder::Open(path));
  DPIPE_RETURN_IF_ERROR(folder.CheckClass({kStableDiffusionXlClass}));
  DPIPE_RETURN_IF_ERROR(CheckEncoders(folder));
  DPIPE_RETURN_IF_ERROR(CheckNoFlowOptions(options, path));
  LatentParts parts(folder);
  UNetSetup unet;
  DPIPE_ASSIGN_OR_RETURN(unet.config, ReadUNet(folder.ConfigOf("unet")));
  DPIPE_RETURN_IF_ERROR(WidenUNet(options, path, &unet));
  DPIPE_ASSIGN_OR_RETURN(parts.vae, ReadVae(folder, unet.config.out_channels, "U-Net"));
  DPIPE_RETURN_IF_ERROR(CheckNoShift(parts.vae, folder.ConfigOf("vae")));
  DPIPE_RETURN_IF_ERROR(ReadTextEncoders(&parts, &unet));
  DPIPE_ASSIGN_OR_RETURN(parts.scheduler, ReadSchedulerFile(folder, {options.prediction_type,
                                                                     options.zero_terminal_snr}));
  if (!parts.scheduler.note.empty()) parts.notes.push_back(parts.scheduler.note);
  DPIPE_ASSIGN_OR_RETURN(const diffusion::NoiseScheduleOptions schedule_options,
                         NoiseScheduleOf(parts.scheduler));
  DPIPE_ASSIGN_OR_RETURN(diffusion::NoiseSchedule schedule,
                         diffusion::NoiseSchedule::Create(schedule_options));
  parts.objective =
      std::make_shared<diffusion::DiffusionObjective>(std::move(schedule), options.min_snr_gamma);
  DPIPE_ASSIGN_OR_RETURN(parts.image_size,
                         ChooseImageSize(options.image_size, unet.config.sample_size, parts.vae,
                                         folder.ConfigOf("unet")));
  parts.zeros_without_text = folder.index().force_zeros_for_empty_prompt.value_or(true);
  unet.downscale = parts.vae.downscale();
  parts.denoiser = std::make_shared<UNetDenoiser>(std::move(unet));
  parts.lora = options.lora;
  return parts;
}

ModelKind StableDiffusionXlKind() {
  ModelKind kind = LatentKind("sdxl", kStableDiffusionXlClass, ReadStableDiffusionXl);
  kind.check_training = [](const std::string& folder) -> absl::Status {
    const std::string path = folder + "/unet/config.json";
    DPIPE_ASSIGN_OR_RETURN(const UNetConfig unet, ReadUNetConfig(path));
    return CheckNoDropout(path, unet.dropout);
  };
  return kind;
}

}  // namespace dpipe::models
