// Text encoders: CLIP's and T5's.
#ifndef DPIPE_CORE_COST_ROOFLINE_TEXT_ENCODERS_H_
#define DPIPE_CORE_COST_ROOFLINE_TEXT_ENCODERS_H_

#include <cstdint>

#include "core/cost/roofline/modelled_profile.h"

namespace dpipe::roofline {

// transformers CLIPTextModel, 49,408 tokens, 77 positions.
struct ClipTextOptions {
  int64_t width = 768;
  int64_t hidden = 3072;
  int num_layers = 12;
  // If true, the output is "pooled" [width]: the last token's final state. If false, it is
  // "last_hidden_state" [77, width].
  bool pooled = false;
};

// Layers: embeddings, and self_attn and mlp of each encoder layer, then final_layer_norm. External
// input: "ids". A component "text_encoder".
ComponentWork ClipText(const ClipTextOptions& options);

// The encoder of T5 v1.1 XXL: 24 layers of width 4096, 64 heads of 64, gated feed-forward of
// 10,240, 32,128 tokens. Output: "last_hidden_state" [length, 4096]. A component "t5_encoder".
ComponentWork T5XxlEncoder(int64_t length);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_TEXT_ENCODERS_H_
