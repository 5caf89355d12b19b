// Stable Diffusion as a TrainableModel.
#ifndef DPIPE_MODELS_LATENT_TRAINABLE_H_
#define DPIPE_MODELS_LATENT_TRAINABLE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/trainable/model_kind.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

class TrainableStableDiffusion : public TrainableModel {
 public:
  static absl::StatusOr<std::unique_ptr<TrainableStableDiffusion>> Load(
      const std::string& folder, const StableDiffusionOptions& options);
  explicit TrainableStableDiffusion(std::unique_ptr<StableDiffusion> model)
      : model_(std::move(model)) {}

  const StableDiffusion& stable_diffusion() const { return *model_; }

  const nn::Model& model() const override { return model_->model(); }
  const std::vector<const nn::ParameterSet*>& frozen_parameters() const override {
    return model_->frozen_parameters();
  }
  int image_size() const override { return model_->image_size(); }
  int size_multiple() const override { return model_->size_multiple(); }
  absl::StatusOr<nn::Model> MakeModel(ImageSize size) const override {
    return model_->MakeModel(size);
  }
  bool takes_coordinates() const override { return model_->unet_config().coordinates(); }
  const ClipTokenizer* tokenizer() const override { return &model_->tokenizer(); }
  std::string Describe() const override;
  std::vector<std::string> notes(Start start) const override;
  absl::StatusOr<NamedTensors> InitialParameters(Start start, uint64_t seed) const override;
  bool has_weights() const override { return model_->has_unet_weights(); }
  std::string DescribeStart(Start start, uint64_t seed) const override;
  std::string DescribeFrozen() const override { return model_->DescribeFrozen(); }
  absl::StatusOr<std::unique_ptr<InputProvider>> MakeInputs(
      DataLoader* loader, const InputsOptions& options) const override;
  absl::StatusOr<CachedInputs> MakeCachedInputs(
      const CacheRequest& request, const InputsOptions& options,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const override;
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
  const std::unique_ptr<StableDiffusion> model_;
};

// "stable_diffusion": a StableDiffusionPipeline.
ModelKind StableDiffusionKind();

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_TRAINABLE_H_
