// A U-Net as the denoiser of a latent pipeline, for Stable Diffusion 1 and 2 and SDXL.
#ifndef DPIPE_MODELS_UNET_UNET_DENOISER_H_
#define DPIPE_MODELS_UNET_UNET_DENOISER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "models/folder/load_options.h"
#include "models/latent/denoiser.h"
#include "models/unet/unet_config.h"
#include "models/unet/unet_parts.h"

namespace dpipe::models {

struct UNetSetup {
  UNetConfig config;
  bool is_widened = false;      // it has further input channels that the folder's U-Net lacks
  int64_t context_length = 77;  // tokens
  std::vector<int64_t> context_widths = {};  // UNetShape::context_widths
  // Outputs of text encoders by input: one per context width and, with the embedding "text_time",
  // "pooled".
  Sources embeddings = {{"context", {"text_encoder", "last_hidden_state"}}};
  int64_t downscale = 8;  // pixels per latent
};

// Adds the further input channels that the options request to the configuration, unless the folder
// has them already. Returns InvalidArgument if they are used for something else, or if adapters are
// trained.
absl::Status WidenUNet(const LoadModelOptions& options, const std::string& folder,
                       UNetSetup* setup);

// Returns InvalidArgument if the U-Net reads further channels beside the latents, other than those
// of its further_input. `path` is that of its configuration.
absl::Status CheckUNetChannels(const UNetConfig& unet, const std::string& path);

class UNetDenoiser : public Denoiser {
 public:
  explicit UNetDenoiser(UNetSetup setup) : setup_(std::move(setup)) {}

  const UNetSetup& setup() const { return setup_; }
  const UNetConfig& config() const { return setup_.config; }
  UNetShape ShapeOf(const LatentSize& size) const;

  std::string name() const override { return "unet"; }
  std::string title() const override { return "U-Net"; }
  int64_t latent_channels() const override { return config().out_channels; }
  int size_multiple() const override { return 1 << (config().num_levels() - 1); }
  Sources embeddings() const override { return setup_.embeddings; }
  std::vector<std::shared_ptr<const Condition>> conditions() const override;
  nn::SelfConditioning self_conditioning() const override;
  // Of SDXL, with the names of the original layout (original_names.h).
  std::vector<KohyaLayer> kohya_layers() const override;
  absl::StatusOr<nn::Program> BuildForTraining(const LatentSize& size,
                                               const DenoiserTraining& training) const override;
  absl::StatusOr<nn::Program> BuildForDrawing(const LatentSize& size) const override;
  absl::StatusOr<nn::Program> BuildStored(const LatentSize& size) const override;
  void FromStored(NamedTensors* parameters) const override;
  // Adds the further input to the folder's configuration.
  absl::StatusOr<std::string> SavedConfig(const std::string& config,
                                          const std::string& source) const override;

 private:
  const UNetSetup setup_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_UNET_UNET_DENOISER_H_
