// A U-Net that is controlled by a ControlNet, as the denoiser of a latent pipeline. Its stored
// weights are those of the locked U-Net; the ControlNet's are its owner's.
#ifndef DPIPE_MODELS_CONTROLNET_CONTROLNET_DENOISER_H_
#define DPIPE_MODELS_CONTROLNET_CONTROLNET_DENOISER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "models/controlnet/controlnet_config.h"
#include "models/unet/unet_denoiser.h"

namespace dpipe::models {

// Components: "locked_encoder" (latents, context, noise, timesteps -> outputs of the U-Net's
// encoder) and the backbone "controlnet".
class ControlNetDenoiser : public UNetDenoiser {
 public:
  // `config_json` is the ControlNet's config.json, and `config` its contents.
  ControlNetDenoiser(UNetSetup unet, ControlNetConfig config, std::string config_json)
      : UNetDenoiser(std::move(unet)),
        control_(std::move(config)),
        control_json_(std::move(config_json)) {}

  const std::string& control_json() const { return control_json_; }

  std::vector<std::shared_ptr<const Condition>> conditions() const override;
  absl::StatusOr<nn::Program> BuildForTraining(const LatentSize& size,
                                               const DenoiserTraining& training) const override;
  absl::StatusOr<nn::Program> BuildForDrawing(const LatentSize& size) const override;
  absl::StatusOr<std::vector<nn::Component>> MakeComponents(
      const LatentSize& size, const DenoiserTraining& training) const override;
  std::vector<FrozenWeights> frozen_weights() const override;
  // Returns the ControlNet by itself, as in its checkpoint.
  absl::StatusOr<nn::Program> BuildAlone(const LatentSize& size) const;

 private:
  const ControlNetConfig control_;
  const std::string control_json_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONTROLNET_CONTROLNET_DENOISER_H_
