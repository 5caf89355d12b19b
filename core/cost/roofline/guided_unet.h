// The U-Net of guided-diffusion (Dhariwal and Nichol, 2021; github.com/openai/guided-diffusion):
// pixel-space backbones of cascaded diffusion models.
#ifndef DPIPE_CORE_COST_ROOFLINE_GUIDED_UNET_H_
#define DPIPE_CORE_COST_ROOFLINE_GUIDED_UNET_H_

#include <string>
#include <vector>

#include "core/cost/roofline/component_builder.h"

namespace dpipe::roofline {

struct GuidedUNetOptions {
  std::string name;
  int64_t image_size = 64;
  int64_t channels = 192;
  std::vector<int> multipliers = {1, 2, 3, 4};
  int resnets_per_level = 3;
  // Attention at image heights of at most this.
  int64_t attention_size = 32;
  bool conditioned = false;   // on a low-resolution image, concatenated to the input as three
                              // channels
  bool class_labels = false;  // 1,000 of them
};

// The published settings: resampling inside residual blocks, scale and shift from the time
// embedding, six output channels (mean and variance). A backbone with layers add_noise,
// time_embedding, conv_in; conv1, conv_shortcut (if channels change) and conv2 of every residual
// block; one per self-attention; conv_out and loss. External inputs: "pixels" and "noise" fp32,
// "timesteps", and optionally "low_resolution" (already enlarged) and "label".
ComponentWork GuidedUNet(const GuidedUNetOptions& options);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_GUIDED_UNET_H_
