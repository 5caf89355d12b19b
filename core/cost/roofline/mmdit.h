// A multimodal diffusion transformer with the size and shape of FLUX.1 (the configuration published
// with FLUX.1-dev). In 19 double blocks, image and text tokens have separate weights and attend
// jointly. 38 single blocks follow on all tokens. Width 3072, 24 heads of 128.
#ifndef DPIPE_CORE_COST_ROOFLINE_MMDIT_H_
#define DPIPE_CORE_COST_ROOFLINE_MMDIT_H_

#include "core/cost/roofline/modelled_profile.h"

namespace dpipe::roofline {

struct MmditOptions {
  int64_t latent_size = 128;  // height and width of 16-channel latents; a token is 2x2 of them
  int64_t text_length = 512;
  int num_double_blocks = 19;
  int num_single_blocks = 38;
};

// A backbone "mmdit" with layers add_noise, embedders, attn, img_mlp and txt_mlp of every double
// block, one per single block, final_layer, loss. External inputs: "latents" of "vae_encoder",
// "context" of "t5_encoder", "pooled" of "text_encoder", noise, timesteps.
ComponentWork Mmdit(const MmditOptions& options);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_MMDIT_H_
