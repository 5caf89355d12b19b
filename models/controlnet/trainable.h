// A ControlNet as a TrainableModel, for the Stable Diffusion model in a folder of diffusers layout.
#ifndef DPIPE_MODELS_CONTROLNET_TRAINABLE_H_
#define DPIPE_MODELS_CONTROLNET_TRAINABLE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "models/controlnet/controlnet_denoiser.h"
#include "models/folder/load_options.h"
#include "models/latent/latent_parts.h"
#include "models/latent/trainable.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Reads the parts of the Stable Diffusion model in the folder, with a ControlNetDenoiser. If the
// folder has a subfolder `controlnet/` with a config.json, its ControlNet is used. Otherwise a new
// one is made for the folder's U-Net and image size. Errors are those of ReadStableDiffusion, and
// InvalidArgument if the configurations are incompatible.
absl::StatusOr<LatentParts> ReadControlNet(const std::string& folder,
                                           const LoadModelOptions& options);

// The backbone's parameters are the ControlNet's, by diffusers' names, and the locked decoder's,
// with kDecoderPrefix. The denoiser is the locked U-Net.
class TrainableControlNet : public TrainableLatentModel {
 public:
  // Loads ReadControlNet's parts. Errors are also those of LatentPipeline::Load.
  static absl::StatusOr<std::unique_ptr<TrainableControlNet>> Load(const std::string& folder,
                                                                   const LoadModelOptions& options);
  explicit TrainableControlNet(std::unique_ptr<LatentPipeline> pipeline)
      : TrainableLatentModel(std::move(pipeline)) {}

  const ControlNetDenoiser& denoiser() const;

  // Half of the captions, so that the model must learn what the picture shows from the condition.
  double default_caption_drop() const override { return 0.5; }
  std::string Describe() const override;
  std::vector<std::string> notes(Start start) const override;
  // kRandom: the copy gets the weights of the U-Net's encoder, the zero convolutions are zero, and
  // the rest of the hint network is random. kFolder: the weights in `controlnet/`. The locked
  // decoder always has the U-Net's weights.
  absl::StatusOr<nn::ParameterSourcePtr> InitialSource(Start start, uint64_t seed) const override;
  bool has_weights() const override;
  std::string DescribeStart(Start start, uint64_t seed) const override;
  std::string DescribeFrozen() const override;
  // Writes a StableDiffusionControlNetPipeline: the folder's own files, the U-Net's weights as
  // SaveWithLockedDenoiser writes them, and `controlnet/`.
  using TrainableModel::Save;
  absl::Status Save(const std::string& folder, const nn::ParameterSource& parameters,
                    StoredFormat format) const override;

 protected:
  absl::StatusOr<NamedTensors> DrawingParameters(const NamedTensors& parameters) const override;

 private:
  const nn::Program& backbone() const { return model().backbone().program; }
  // The path of `controlnet/`.
  std::string own_folder() const;
};

// "controlnet": a StableDiffusionControlNetPipeline or, if requested by name, any Stable Diffusion.
ModelKind ControlNetKind();

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONTROLNET_TRAINABLE_H_
