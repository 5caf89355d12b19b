// A cascade of two pixel-space diffusion models (Ho et al., "Cascaded diffusion models", arXiv
// 2106.15282): one draws small pictures, the other enlarges them. Both are trained at once, on the
// same samples: two backbones, no frozen component.
//
// A folder in diffusers layout has
// - model_index.json, with the class CascadedDiffusionPipeline, which is not one of diffusers'
//   pipelines. In training the small picture's noise level is drawn below "max_noise_level";
//   sampling uses "noise_level".
// - `base` and `super_resolution`, each a UNet2DModel;
// - `base_scheduler`, `super_resolution_scheduler` and `low_res_scheduler`;
// - classes.txt, if the base has a table of classes (class_labels.h).
#ifndef DPIPE_MODELS_CASCADE_CASCADE_H_
#define DPIPE_MODELS_CASCADE_CASCADE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/model.h"
#include "models/cascade/class_labels.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/pixel_unet/pixel_unet.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// One of the two models.
struct CascadePart {
  std::string name;  // of the component and the folder; prefix of parameters' names, with a dot
  PixelUNetConfig config;
  PixelUNetOptions options;
  std::unique_ptr<diffusion::DiffusionObjective> objective;
};

// Component indices of Cascade::model().
inline constexpr int kBase = 0;
inline constexpr int kSuperResolution = 1;

class Cascade : public TrainableModel {
 public:
  // Errors name the file and the problem.
  static absl::StatusOr<std::unique_ptr<TrainableModel>> Load(const std::string& folder,
                                                              const LoadModelOptions& options);

  const CascadePart& part(int index) const { return parts_[index]; }
  // For the noise of the small picture.
  const diffusion::NoiseSchedule& low_schedule() const { return *low_schedule_; }
  int max_noise_level() const { return max_noise_level_; }
  int noise_level() const { return noise_level_; }
  int base_size() const { return image_size_ / ratio_; }
  // Returns the size of a part's pictures, given that of the large ones.
  ImageSize SizeOf(int index, ImageSize large) const;
  // Null if the base has no classes.
  const ClassLabels* labels() const { return labels_.has_value() ? &*labels_ : nullptr; }

  const nn::Model& model() const override { return *model_; }
  const std::vector<const nn::ParameterSet*>& frozen_parameters() const override { return frozen_; }
  int image_size() const override { return image_size_; }
  int size_multiple() const override;
  absl::StatusOr<nn::Model> MakeModel(ImageSize size) const override;
  std::string Describe() const override;
  std::vector<std::string> notes(Start start) const override;
  absl::StatusOr<nn::ParameterSourcePtr> InitialSource(Start start, uint64_t seed) const override;
  bool has_weights() const override;
  std::string DescribeStart(Start start, uint64_t seed) const override;
  std::string DescribeFrozen() const override { return ""; }
  absl::StatusOr<std::unique_ptr<InputProvider>> MakeInputs(
      DataLoader* loader, const InputsOptions& options) const override;
  using TrainableModel::Save;
  absl::Status Save(const std::string& folder, const nn::ParameterSource& parameters,
                    StoredFormat format) const override;
  absl::Status CheckDraw(const std::vector<std::string>& prompts,
                         const DrawOptions& options) const override;
  std::string SamplerNote(const DrawOptions& options) const override;
  absl::StatusOr<std::vector<Image>> Draw(
      const NamedTensors& parameters, const DrawRequest& request,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const override;

 private:
  Cascade() = default;
  absl::Status ReadIndex();
  absl::Status ReadPart(int index, const LoadModelOptions& options);
  absl::Status SetSizes(int image_size);
  // Returns a part's options, given the size of the large pictures.
  PixelUNetOptions OptionsAt(int index, ImageSize large) const;
  absl::StatusOr<std::vector<nn::Component>> MakeComponents(ImageSize large) const;
  absl::Status BuildModel();
  absl::StatusOr<std::string> SchedulerConfig(const std::string& name) const;

  std::string folder_;
  LoadModelOptions options_;
  CascadePart parts_[2];
  std::unique_ptr<diffusion::NoiseSchedule> low_schedule_;
  int max_noise_level_ = 0, noise_level_ = 0;
  int image_size_ = 0;
  int ratio_ = 0;  // of a large picture's side to a small one's
  std::optional<ClassLabels> labels_;
  std::unique_ptr<nn::Model> model_;
  std::vector<const nn::ParameterSet*> frozen_;
};

// "cascade": a CascadedDiffusionPipeline.
ModelKind CascadeKind();

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CASCADE_CASCADE_H_
