// The common part of denoisers that are multimodal diffusion transformers.
#ifndef DPIPE_MODELS_MMDIT_MMDIT_DENOISER_H_
#define DPIPE_MODELS_MMDIT_MMDIT_DENOISER_H_

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "models/latent/denoiser.h"
#include "models/mmdit/mmdit_parts.h"

namespace dpipe::models {

class MmditDenoiser : public Denoiser {
 public:
  std::string name() const override { return "transformer"; }
  std::string title() const override { return "transformer"; }
  int size_multiple() const override { return kMmditPatch; }
  absl::StatusOr<nn::Program> BuildForTraining(const LatentSize& size,
                                               const DenoiserTraining& training) const override;
  absl::StatusOr<nn::Program> BuildForDrawing(const LatentSize& size) const override;

 protected:
  // Number of text tokens that the transformer reads.
  virtual int64_t context_length() const = 0;
  MmditShape ShapeOf(const LatentSize& size) const {
    return {size.height, size.width, context_length()};
  }
  // Returns InvalidArgument with the sizes if the transformer does not allow them.
  virtual absl::Status CheckShape(const MmditShape& shape) const = 0;
  // Adds the inputs of text and of conditions, and layers that prepare them. Sets all of `inputs`
  // but latents and timesteps.
  virtual void AddConditions(const MmditShape& shape, nn::ProgramBuilder* builder,
                             MmditInputs* inputs) const = 0;
  // Adds the layers up to the prediction, shaped as the latents, in the compute dtype.
  virtual ValueId AddTransformer(const MmditShape& shape, nn::LayerKind kind,
                                 const MmditInputs& inputs, nn::ProgramBuilder* builder,
                                 const nn::LoraSpec& lora) const = 0;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_MMDIT_MMDIT_DENOISER_H_
