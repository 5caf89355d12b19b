#include "models/latent/trainable.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/diffusion/samplers/samplers.h"
#include "models/latent/cached_inputs.h"
#include "models/latent/image_sampler.h"
#include "models/latent/training_inputs.h"
#include "models/lora/lora.h"
#include "models/trainable/dropout.h"

namespace dpipe::models {

absl::StatusOr<std::unique_ptr<TrainableStableDiffusion>> TrainableStableDiffusion::Load(
    const std::string& folder, const StableDiffusionOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(auto model, StableDiffusion::Load(folder, options));
  return std::make_unique<TrainableStableDiffusion>(std::move(model));
}

std::string TrainableStableDiffusion::Describe() const {
  const nn::Program& unet = model().component(kUNet).program;
  return absl::StrCat(
      model().name(), ", ",
      absl::StrFormat("%.2f M trainable parameters in %d layers, %d x %d pixels",
                      unet.TrainableParameterCount(unet.all_layers()) / 1e6, unet.num_layers(),
                      image_size(), image_size()),
      model_->lora().rank > 0 ? absl::StrCat(" (adapters of rank ", model_->lora().rank, ")") : "",
      model_->frozen_is_random() ? ", random frozen components (pictures will be meaningless)"
                                 : "");
}

std::vector<std::string> TrainableStableDiffusion::notes(Start start) const {
  return model_->notes();
}

absl::StatusOr<NamedTensors> TrainableStableDiffusion::InitialParameters(Start start,
                                                                         uint64_t seed) const {
  if (start == Start::kRandom) return model_->RandomUNet(seed);
  return model_->LoadUNet();
}

std::string TrainableStableDiffusion::DescribeStart(Start start, uint64_t seed) const {
  if (start == Start::kRandom) return absl::StrCat("unet random (seed ", seed, ")");
  const std::string unet = absl::StrCat("unet from ", model_->folder(), "/unet");
  if (!model_->has_adapters()) {
    return model_->lora().rank > 0 ? absl::StrCat(unet, ", with new adapters") : unet;
  }
  return absl::StrCat(
      unet, model_->lora().rank > 0 ? ", with adapters from " : " with merged adapters from ",
      model_->adapters_file());
}

absl::StatusOr<std::unique_ptr<InputProvider>> TrainableStableDiffusion::MakeInputs(
    DataLoader* loader, const InputsOptions& options) const {
  return std::make_unique<TrainingInputs>(model_.get(), loader, options);
}

absl::StatusOr<CachedInputs> TrainableStableDiffusion::MakeCachedInputs(
    const CacheRequest& request, const InputsOptions& options,
    const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  return MakeCachedTrainingInputs(model_.get(), request, options, workers, on_progress);
}

absl::Status TrainableStableDiffusion::Save(const std::string& folder,
                                            const NamedTensors& parameters,
                                            StoredFormat format) const {
  return model_->Save(folder, parameters, format);
}

absl::Status TrainableStableDiffusion::CheckDraw(const std::vector<std::string>& prompts,
                                                 const DrawOptions& options) const {
  return CheckDrawOptions(options, model_->schedule());
}

std::string TrainableStableDiffusion::SamplerNote(const DrawOptions& options) const {
  return diffusion::ChooseSampler(model_->schedule().options(), options.kind).note;
}

absl::StatusOr<std::vector<Image>> TrainableStableDiffusion::Draw(
    const NamedTensors& parameters, const DrawRequest& request,
    const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  const SplitParameters split = SplitLora(parameters);
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors merged,
                         MergeLora(split.base, split.adapters, model_->lora().scale));
  DPIPE_ASSIGN_OR_RETURN(const auto sampler,
                         ImageSampler::Create(model_.get(), merged, request.compute_dtype));
  return sampler->Draw(request.prompts, request.options, workers, on_progress);
}

ModelKind StableDiffusionKind() {
  ModelKind kind;
  kind.name = "stable_diffusion";
  kind.classes = StableDiffusionClasses();
  kind.load =
      [](const std::string& folder,
         const LoadModelOptions& options) -> absl::StatusOr<std::unique_ptr<TrainableModel>> {
    const std::string unet_path = folder + "/unet/config.json";
    DPIPE_ASSIGN_OR_RETURN(const UNetConfig unet, ReadUNetConfig(unet_path));
    DPIPE_RETURN_IF_ERROR(CheckNoDropout(unet_path, unet.dropout));
    StableDiffusionOptions own;
    own.image_size = options.image_size;
    own.min_snr_gamma = options.min_snr_gamma;
    own.prediction_type = options.prediction_type;
    own.zero_terminal_snr = options.zero_terminal_snr;
    own.lora = options.lora;
    own.lora_format = options.lora_format;
    own.self_conditioning = options.self_conditioning;
    own.coordinates = options.coordinates;
    return TrainableStableDiffusion::Load(folder, own);
  };
  return kind;
}

}  // namespace dpipe::models
