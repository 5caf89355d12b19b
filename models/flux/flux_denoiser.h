// FLUX.1's transformer as the denoiser of a latent pipeline.
#ifndef DPIPE_MODELS_FLUX_FLUX_DENOISER_H_
#define DPIPE_MODELS_FLUX_FLUX_DENOISER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/latent/denoiser.h"
#include "models/mmdit/flux_transformer_config.h"
#include "models/mmdit/mmdit_parts.h"

namespace dpipe::models {

// Reads T5's states as "context", CLIP's pooled state as "pooled" and, if the configuration embeds
// it, the guidance scale as "guidance". Without that, guidance is classifier-free, true_cfg_scale
// in diffusers.
class FluxDenoiser : public Denoiser {
 public:
  // `context_length` is the number of T5's tokens.
  FluxDenoiser(const FluxTransformerConfig& config, int64_t context_length)
      : config_(config), context_length_(context_length) {}

  const FluxTransformerConfig& config() const { return config_; }

  std::string name() const override { return "transformer"; }
  std::string title() const override { return "transformer"; }
  int64_t latent_channels() const override { return config_.latent_channels(); }
  int size_multiple() const override { return kMmditPatch; }
  Sources embeddings() const override;
  std::vector<std::shared_ptr<const Condition>> conditions() const override;
  bool embeds_guidance() const override { return config_.guidance_embeds; }
  std::vector<KohyaLayer> kohya_layers() const override;
  absl::StatusOr<nn::Program> BuildForTraining(const LatentSize& size,
                                               const DenoiserTraining& training) const override;
  absl::StatusOr<nn::Program> BuildForDrawing(const LatentSize& size) const override;

 private:
  MmditShape ShapeOf(const LatentSize& size) const;

  const FluxTransformerConfig config_;
  const int64_t context_length_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FLUX_FLUX_DENOISER_H_
