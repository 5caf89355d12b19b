// A ControlNet as a TrainableModel, for the Stable Diffusion model in a folder of diffusers layout.
#ifndef DPIPE_MODELS_CONTROLNET_TRAINABLE_H_
#define DPIPE_MODELS_CONTROLNET_TRAINABLE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/controlnet/controlnet_config.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/trainable/model_kind.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Components: "vae_encoder", "text_encoder", "locked_encoder" (latents, context, noise, timesteps
// -> outputs of the U-Net's encoder) and the backbone "controlnet". The backbone's parameters are
// the ControlNet's, by diffusers' names, and the locked decoder's, with kDecoderPrefix.
class TrainableControlNet : public TrainableModel {
 public:
  // If the folder has a subfolder `controlnet/` with a config.json, that ControlNet is loaded, with
  // weights if it has some. Otherwise a new one is made for the folder's U-Net and image size.
  // Errors are those of StableDiffusion::Load, and InvalidArgument if the configurations are
  // incompatible.
  static absl::StatusOr<std::unique_ptr<TrainableControlNet>> Load(const std::string& folder,
                                                                   StableDiffusionOptions options);

  const StableDiffusion& stable_diffusion() const { return *base_; }
  const ControlNetConfig& config() const { return config_; }

  const nn::Model& model() const override { return base_->model(); }
  const std::vector<const nn::ParameterSet*>& frozen_parameters() const override {
    return base_->frozen_parameters();
  }
  int image_size() const override { return base_->image_size(); }
  int size_multiple() const override { return base_->size_multiple(); }
  absl::StatusOr<nn::Model> MakeModel(ImageSize size) const override;
  const ClipTokenizer* tokenizer() const override { return &base_->tokenizer(); }
  bool wants_conditions() const override { return true; }
  // Half of the captions, so that the model must learn what the picture shows from the condition.
  double default_caption_drop() const override { return 0.5; }
  std::string Describe() const override;
  std::vector<std::string> notes(Start start) const override;
  // kRandom: the copy gets the weights of the U-Net's encoder, the zero convolutions are zero, and
  // the rest of the hint network is random. kFolder: the weights in `controlnet/`. The locked
  // decoder always has the U-Net's weights.
  absl::StatusOr<NamedTensors> InitialParameters(Start start, uint64_t seed) const override;
  bool has_weights() const override;
  std::string DescribeStart(Start start, uint64_t seed) const override;
  std::string DescribeFrozen() const override;
  absl::StatusOr<std::unique_ptr<InputProvider>> MakeInputs(
      DataLoader* loader, const InputsOptions& options) const override;
  // Caches latents and contexts, but not the locked encoder, because it reads noise and timesteps.
  absl::StatusOr<CachedInputs> MakeCachedInputs(
      const CacheRequest& request, const InputsOptions& options,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const override;
  // Writes a StableDiffusionControlNetPipeline: the folder's own files, the U-Net's weights as
  // SaveWithLockedUNet writes them, and `controlnet/`.
  absl::Status Save(const std::string& folder, const NamedTensors& parameters,
                    StoredFormat format) const override;
  absl::Status CheckDraw(const std::vector<std::string>& prompts,
                         const DrawOptions& options) const override;
  std::string SamplerNote(const DrawOptions& options) const override;
  absl::StatusOr<std::vector<Image>> Draw(
      const NamedTensors& parameters, const DrawRequest& request,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const override;

 private:
  TrainableControlNet() = default;
  absl::Status ReadConfig(const StableDiffusion& base);
  absl::StatusOr<BackboneParts> MakeBackbone(const StableDiffusion& base);
  // Returns the locked encoder and the backbone. Without encoders, the outputs of `base`'s two
  // encoders are external inputs.
  absl::StatusOr<std::vector<nn::Component>> MakeComponents(const StableDiffusion& base,
                                                            ImageSize size,
                                                            bool with_encoders) const;
  // Returns the model for pictures of a size, fed by `encoders`; empty makes their outputs
  // external.
  absl::StatusOr<nn::Model> MakeModelWith(std::vector<nn::Component> encoders,
                                          ImageSize size) const;
  const nn::Program& backbone() const { return model().backbone().program; }
  absl::StatusOr<NamedTensors> NewControlNet(const NamedTensors& unet, uint64_t seed) const;
  absl::StatusOr<nn::Program> BuildAlone() const;

  std::unique_ptr<StableDiffusion> base_;
  double min_snr_gamma_ = 0;
  ControlNetConfig config_;
  std::string config_json_;
};

// "controlnet": a StableDiffusionControlNetPipeline or, if requested by name, any Stable Diffusion.
ModelKind ControlNetKind();

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONTROLNET_TRAINABLE_H_
