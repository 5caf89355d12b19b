#include "models/stable_diffusion/stable_diffusion.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "models/clip_text/clip_text_encoder.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/latent/trainable.h"
#include "models/stable_diffusion/config_corrections.h"
#include "models/trainable/trainable_model.h"
#include "models/unet/unet_denoiser.h"

namespace dpipe::models {
namespace {

// A folder without kFurtherInputKey that was saved here has the class StableDiffusionPipeline.
// Other models with as many channels have classes of their own.
absl::StatusOr<UNetConfig> ReadUNet(const PipelineFolder& folder, std::vector<std::string>* notes) {
  const std::string path = folder.ConfigOf("unet");
  DPIPE_ASSIGN_OR_RETURN(UNetConfig unet, ReadUNetConfig(path));
  if (unet.latent_channels() != unet.out_channels) {
    if (folder.index().class_name == kStableDiffusionClass) {
      unet.further_input = GuessFurtherInput(unet);
    }
    if (unet.further_input != FurtherInput::kNone) {
      notes->push_back(
          absl::StrCat(path, " has ", unet.in_channels, " input channels for ", unet.out_channels,
                       " output channels and no '", kFurtherInputKey, "'; it is read as '",
                       FurtherInputName(unet.further_input),
                       "', as written by this trainer; models for other inputs are not supported"));
    }
    DPIPE_RETURN_IF_ERROR(CheckUNetChannels(unet, path));
  }
  if (unet.has_text_time()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": 'addition_embed_type' is \"text_time\", as in SDXL; a ",
                     folder.index().class_name, " supports null"));
  }
  CorrectSampleSize(&unet);
  return unet;
}

absl::StatusOr<diffusion::NoiseSchedule> ReadSchedule(const PipelineFolder& folder,
                                                      const SchedulerFile& file) {
  DPIPE_ASSIGN_OR_RETURN(diffusion::NoiseScheduleOptions options, NoiseScheduleOf(file));
  // diffusers' other pipelines do not do this.
  if (folder.index().class_name == kStableDiffusionClass) CorrectScheduler(&options);
  return diffusion::NoiseSchedule::Create(options);
}

}  // namespace

const std::vector<std::string>& StableDiffusionClasses() {
  static const auto* const kClasses =
      new std::vector<std::string>{kStableDiffusionClass, kControlNetPipelineClass};
  return *kClasses;
}

absl::StatusOr<LatentParts> ReadStableDiffusion(const std::string& path,
                                                const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const PipelineFolder folder, PipelineFolder::Open(path));
  DPIPE_RETURN_IF_ERROR(folder.CheckClass(StableDiffusionClasses()));
  DPIPE_RETURN_IF_ERROR(
      folder.CheckLacks({"text_encoder_2", "text_encoder_3", "transformer", "prior"},
                        "one unet with one text_encoder"));
  DPIPE_RETURN_IF_ERROR(CheckNoFlowOptions(options, path));
  LatentParts parts(folder);
  UNetSetup unet;
  DPIPE_ASSIGN_OR_RETURN(unet.config, ReadUNet(folder, &parts.notes));
  DPIPE_RETURN_IF_ERROR(WidenUNet(options, path, &unet));
  DPIPE_ASSIGN_OR_RETURN(parts.vae, ReadVae(folder, unet.config.out_channels, "U-Net"));
  DPIPE_RETURN_IF_ERROR(CheckNoShift(parts.vae, folder.ConfigOf("vae")));
  DPIPE_ASSIGN_OR_RETURN(const ClipTextEncoder text,
                         ReadClipTextEncoder(folder, "text_encoder", "tokenizer"));
  parts.text_encoders = {text.encoder};
  DPIPE_ASSIGN_OR_RETURN(parts.scheduler, ReadSchedulerFile(folder, {options.prediction_type,
                                                                     options.zero_terminal_snr}));
  if (!parts.scheduler.note.empty()) parts.notes.push_back(parts.scheduler.note);
  DPIPE_ASSIGN_OR_RETURN(diffusion::NoiseSchedule schedule, ReadSchedule(folder, parts.scheduler));
  parts.objective =
      std::make_shared<diffusion::DiffusionObjective>(std::move(schedule), options.min_snr_gamma);
  DPIPE_ASSIGN_OR_RETURN(parts.image_size,
                         ChooseImageSize(options.image_size, unet.config.sample_size, parts.vae,
                                         folder.ConfigOf("unet")));
  if (text.config.hidden_size != unet.config.cross_attention_dim) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the text encoder's hidden_size is ", text.config.hidden_size,
                     ", but the U-Net's cross_attention_dim is ", unet.config.cross_attention_dim));
  }
  unet.context_length = text.encoder.tokenizer->max_length();
  unet.downscale = parts.vae.downscale();
  parts.denoiser = std::make_shared<UNetDenoiser>(std::move(unet));
  parts.lora = options.lora;
  return parts;
}

absl::StatusOr<std::unique_ptr<LatentPipeline>> LoadStableDiffusion(
    const std::string& folder, const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(LatentParts parts, ReadStableDiffusion(folder, options));
  return LatentPipeline::Load(std::move(parts), options);
}

ModelKind StableDiffusionKind() {
  ModelKind kind;
  kind.name = "stable_diffusion";
  kind.classes = StableDiffusionClasses();
  kind.is_latent = true;
  kind.takes_adapters = true;
  kind.check_training = [](const std::string& folder) -> absl::Status {
    const std::string path = folder + "/unet/config.json";
    DPIPE_ASSIGN_OR_RETURN(const UNetConfig unet, ReadUNetConfig(path));
    return CheckNoDropout(path, unet.dropout);
  };
  kind.load =
      [](const std::string& folder,
         const LoadModelOptions& options) -> absl::StatusOr<std::unique_ptr<TrainableModel>> {
    DPIPE_ASSIGN_OR_RETURN(auto pipeline, LoadStableDiffusion(folder, options));
    return std::make_unique<TrainableLatentModel>(std::move(pipeline));
  };
  return kind;
}

}  // namespace dpipe::models
