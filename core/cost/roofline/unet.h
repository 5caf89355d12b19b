// diffusers' UNet2DConditionModel, whole for training, or split for ControlNet.
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
  std::vector<int> transformer_blocks;  // by level; 0: no transformer in that level
  int middle_transformer_blocks = 1;
  int layers_per_block = 2;
  int num_heads = 0;  // of each attention; 0: as many as there are 64 channels
  int64_t context_width = 768;
  int64_t context_length = 77;
  // SDXL: pooled text and six sizes, embedded and added to the time embedding; 0: none.
  int64_t added_width = 0;
};

UNetArchitecture StableDiffusionV21UNet();
UNetArchitecture StableDiffusionV15UNet();
UNetArchitecture SdxlUNet();

// Adds the architecture's parts to a component. Layers are named as in models/unet, with
// `prefix` before each name.
class UNetParts {
 public:
  UNetParts(const UNetArchitecture& architecture, LayerKind kind, const std::string& prefix,
            ComponentBuilder* builder)
      : arch_(architecture), kind_(kind), prefix_(prefix), builder_(builder) {}

  // timesteps [] -> [4 * channels[0]], through SiLU. `added` as in UNetArchitecture.added_width:
  // pooled text [added_width - 1536], six sizes of 256 sinusoids each.
  Value Time(const Value& timesteps, const Value* added);
  // The first convolution and the levels down: the skips, in order; the last is also the output.
  // `hint`, if any, is added after the first convolution.
  std::vector<Value> Down(const Value& x, const Value& time, const Value& context,
                          const Value* hint = nullptr);
  Value Middle(const Value& x, const Value& time, const Value& context);
  // The levels up, reading `skips` from the back, and the last convolution.
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
  // Also reads its own previous estimate: in_channels are doubled in the first convolution.
  bool self_conditioning = false;
  // Frozen components and their outputs.
  std::string latents_component = "vae_encoder";
  // Outputs that are joined to the context, along the channels: (component, output, width).
  struct Context {
    std::string component, output;
    int64_t width = 0;
  };
  std::vector<Context> contexts;
  // Where added_width > 0: what gives the pooled text.
  Context pooled;
};

// Layers: add_noise, time_embedding, the U-Net, loss. External inputs: latents and noise fp32,
// timesteps, context. A backbone, called "unet".
ComponentWork UNetForTraining(const UNetArchitecture& architecture,
                              const UNetTrainingOptions& options);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_UNET_H_
