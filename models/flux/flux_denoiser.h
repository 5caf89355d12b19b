// FLUX.1's transformer as the denoiser of a latent pipeline.
#ifndef DPIPE_MODELS_FLUX_FLUX_DENOISER_H_
#define DPIPE_MODELS_FLUX_FLUX_DENOISER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/mmdit/flux_transformer.h"
#include "models/mmdit/mmdit_denoiser.h"

namespace dpipe::models {

// Reads T5's states as "context", CLIP's pooled state as "pooled" and, if the configuration embeds
// it, the guidance scale as "guidance". Without that, guidance is classifier-free, true_cfg_scale
// in diffusers.
class FluxDenoiser : public MmditDenoiser {
 public:
  // `context_length` is the number of T5's tokens.
  FluxDenoiser(const FluxTransformerConfig& config, int64_t context_length)
      : config_(config), context_length_(context_length) {}

  const FluxTransformerConfig& config() const { return config_; }

  int64_t latent_channels() const override { return config_.latent_channels(); }
  Sources embeddings() const override;
  std::vector<std::shared_ptr<const Condition>> conditions() const override;
  bool embeds_guidance() const override { return config_.guidance_embeds; }
  std::vector<KohyaLayer> kohya_layers() const override;

 protected:
  int64_t context_length() const override { return context_length_; }
  absl::Status CheckShape(const MmditShape& shape) const override;
  void AddConditions(const MmditShape& shape, nn::ProgramBuilder* builder,
                     MmditInputs* inputs) const override;
  ValueId AddTransformer(const MmditShape& shape, nn::LayerKind kind, const MmditInputs& inputs,
                         nn::ProgramBuilder* builder, const nn::LoraSpec& lora) const override;

 private:
  const FluxTransformerConfig config_;
  const int64_t context_length_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FLUX_FLUX_DENOISER_H_
