// diffusers' UNet2DConditionModel: whole for training, or split for ControlNet.
#ifndef DPIPE_CORE_COST_ROOFLINE_UNET_H_
#define DPIPE_CORE_COST_ROOFLINE_UNET_H_

#include <string>
#include <vector>

#include "core/cost/roofline/blocks.h"

namespace dpipe::roofline {

// Levels are counted from the highest resolution down.
struct UNetArchitecture {
  int64_t in_channels = 4;
  int64_t out_channels = 4;
  std::vector<int64_t> channels;
  std::vector<int> transformer_blocks;  // by level; 0: no transformer at that level
  int middle_transformer_blocks = 1;
  int layers_per_block = 2;
  int num_heads = 0;  // of each attention; 0: as many as there are 64 channels
  int64_t context_width = 768;
  int64_t context_length = 77;
  // SDXL: width of the pooled text and six sizes that are embedded and added to the time embedding;
  // 0: none.
  int64_t added_width = 0;
};

UNetArchitecture StableDiffusionV21UNet();
UNetArchitecture StableDiffusionV15UNet();
UNetArchitecture SdxlUNet();

// Adds the parts of the architecture to a component. Layers are named as in models/unet, with
// `prefix` before each name.
class UNetParts {
 public:
  UNetParts(const UNetArchitecture& architecture, LayerKind kind, const std::string& prefix,
            ComponentBuilder* builder)
      : arch_(architecture), kind_(kind), prefix_(prefix), builder_(builder) {}

  // timesteps [] -> [4 * channels[0]], through SiLU. `added`, see UNetArchitecture.added_width, is
  // the pooled text [added_width - 1536] and six sizes of 256 sinusoids each.
  Value Time(const Value& timesteps, const Value* added);
  // Adds the first convolution and the levels down. Returns the skips in order; the last one is
  // also the output. `hint`, if not null, is added after the first convolution.
  std::vector<Value> Down(const Value& x, const Value& time, const Value& context,
                          const Value* hint = nullptr);
  Value Middle(const Value& x, const Value& time, const Value& context);
  // Adds the levels up, which read `skips` from the back, and the last convolution.
  Value Up(Value x, std::vector<Value> skips, const Value& time, const Value& context);

 private:
  int64_t HeadSize(int level) const {
    return arch_.num_heads == 0 ? 64 : arch_.channels[level] / arch_.num_heads;
  }
  Value Resnet(const std::string& name, int level, const Value& x, const Value& time,
               const Value* skip);

  const UNetArchitecture& arch_;
  const LayerKind kind_;
  const std::string prefix_;
  ComponentBuilder* const builder_;
};

struct UNetTrainingOptions {
  int64_t latent_size = 64;  // height and width
  // Also reads its own previous estimate, which doubles in_channels of the first convolution.
  bool self_conditioning = false;
  // The frozen component that provides the latents.
  std::string latents_component = "vae_encoder";
  // Outputs that are concatenated to the context along the channels.
  struct Context {
    std::string component, output;
    int64_t width = 0;
  };
  std::vector<Context> contexts;
  // If added_width > 0: the source of the pooled text.
  Context pooled;
};

// Layers: add_noise, time_embedding, the U-Net, loss. External inputs: latents and noise fp32,
// timesteps, context. A backbone called "unet".
ComponentWork UNetForTraining(const UNetArchitecture& architecture,
                              const UNetTrainingOptions& options);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_UNET_H_
