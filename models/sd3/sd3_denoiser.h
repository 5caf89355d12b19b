// Stable Diffusion 3's transformer as the denoiser of a latent pipeline.
#ifndef DPIPE_MODELS_SD3_SD3_DENOISER_H_
#define DPIPE_MODELS_SD3_SD3_DENOISER_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "models/mmdit/mmdit_denoiser.h"
#include "models/mmdit/sd3_transformer.h"

namespace dpipe::models {

// Sizes of the text encoders' outputs.
struct Sd3Text {
  // Both CLIPs have this many tokens.
  int64_t clip_length = 77;
  std::array<int64_t, 2> clip_widths = {768, 1280};    // of states
  std::array<int64_t, 2> pooled_widths = {768, 1280};  // of projections
  int64_t t5_length = 256;
  bool has_t5 = true;  // without it, its states are zeros

  int64_t length() const { return clip_length + t5_length; }
};

// Reads the penultimate states of both CLIPs as "context" and "context_2", their projections as
// "pooled" and "pooled_2" and, if there is one, T5's states as "context_3". Its first layer,
// "join_text", joins them as StableDiffusion3Pipeline does: the CLIPs side by side, padded with
// zeros to the transformer's joint_attention_dim, then T5's tokens.
class Sd3Denoiser : public MmditDenoiser {
 public:
  Sd3Denoiser(Sd3TransformerConfig config, const Sd3Text& text)
      : config_(std::move(config)), text_(text) {}

  const Sd3TransformerConfig& config() const { return config_; }

  int64_t latent_channels() const override { return config_.in_channels; }
  Sources embeddings() const override;
  std::vector<KohyaLayer> kohya_layers() const override;
  // The table of positions.
  ComputedTensors computed_tensors() const override;

 protected:
  int64_t context_length() const override { return text_.length(); }
  absl::Status CheckShape(const MmditShape& shape) const override;
  void AddConditions(const MmditShape& shape, nn::ProgramBuilder* builder,
                     MmditInputs* inputs) const override;
  ValueId AddTransformer(const MmditShape& shape, nn::LayerKind kind, const MmditInputs& inputs,
                         nn::ProgramBuilder* builder, const nn::LoraSpec& lora) const override;

 private:
  const Sd3TransformerConfig config_;
  const Sd3Text text_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_SD3_SD3_DENOISER_H_
