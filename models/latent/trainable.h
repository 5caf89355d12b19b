// A latent pipeline as a TrainableModel.
#ifndef DPIPE_MODELS_LATENT_TRAINABLE_H_
#define DPIPE_MODELS_LATENT_TRAINABLE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "models/latent/latent_pipeline.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Trains the denoiser. Families whose trained part has other weights than the denoiser's override
// where these come from and go to.
class TrainableLatentModel : public TrainableModel {
 public:
  explicit TrainableLatentModel(std::unique_ptr<LatentPipeline> pipeline)
      : pipeline_(std::move(pipeline)) {}

  const LatentPipeline& pipeline() const { return *pipeline_; }

  const nn::Model& model() const override { return pipeline_->model(); }
  const std::vector<const nn::ParameterSet*>& frozen_parameters() const override {
    return pipeline_->frozen_parameters();
  }
  absl::Status LoadFrozen(int component, LayerRange layers) const override {
    return pipeline_->LoadFrozen(component, layers);
  }
  int image_size() const override { return pipeline_->image_size(); }
  int size_multiple() const override { return pipeline_->parts().size_multiple(); }
  absl::StatusOr<nn::Model> MakeModel(ImageSize size) const override {
    return pipeline_->MakeModel(size);
  }
  bool takes_coordinates() const override;
  bool wants_conditions() const override;
  // Of the text encoder that reads the most tokens.
  const Tokenizer* tokenizer() const override;
  std::string Describe() const override;
  std::vector<std::string> notes(Start start) const override { return pipeline_->notes(); }
  absl::StatusOr<nn::ParameterSourcePtr> InitialSource(Start start, uint64_t seed) const override;
  bool has_weights() const override { return pipeline_->has_denoiser_weights(); }
  std::string DescribeStart(Start start, uint64_t seed) const override;
  std::string DescribeFrozen() const override { return pipeline_->DescribeFrozen(); }
  absl::StatusOr<std::unique_ptr<InputProvider>> MakeInputs(
      DataLoader* loader, const InputsOptions& options) const override;
  absl::StatusOr<CachedInputs> MakeCachedInputs(
      const CacheRequest& request, const InputsOptions& options,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const override;
  using TrainableModel::Save;
  absl::Status Save(const std::string& folder, const nn::ParameterSource& parameters,
                    StoredFormat format) const override {
    return pipeline_->Save(folder, parameters, format);
  }
  absl::Status CheckDraw(const std::vector<std::string>& prompts,
                         const DrawOptions& options) const override {
    return pipeline_->objective().CheckDraw(options);
  }
  std::string SamplerNote(const DrawOptions& options) const override {
    return pipeline_->objective().SamplerNote(options);
  }
  absl::StatusOr<std::vector<Image>> Draw(
      const NamedTensors& parameters, const DrawRequest& request,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const override;

 protected:
  // Returns the parameters of the denoiser's drawing program, given the trained ones. Trained
  // adapters are merged.
  virtual absl::StatusOr<NamedTensors> DrawingParameters(const NamedTensors& parameters) const {
    return pipeline_->adapters().WithTrainedMerged(parameters);
  }

 private:
  const std::unique_ptr<LatentPipeline> pipeline_;
};

// Returns a kind of models whose denoiser is trained, given what turns a folder into their parts.
// Adapters of the denoiser can be trained.
ModelKind LatentKind(const std::string& name, const std::string& class_name,
                     std::function<absl::StatusOr<LatentParts>(const std::string& folder,
                                                               const LoadModelOptions& options)>
                         read);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_TRAINABLE_H_
