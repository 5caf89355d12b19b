// Text encoders: CLIP's and T5's.
#ifndef DPIPE_CORE_COST_ROOFLINE_TEXT_ENCODERS_H_
#define DPIPE_CORE_COST_ROOFLINE_TEXT_ENCODERS_H_

#include <string>

#include "core/cost/roofline/modelled_profile.h"

namespace dpipe::roofline {

// transformers CLIPTextModel, 49,408 tokens, 77 positions.
struct ClipTextOptions {
  std::string name = "text_encoder";
  int64_t width = 768;
  int64_t hidden = 3072;
  int num_layers = 12;
  bool final_norm = true;
  // Adds an output: the input of the last layer.
  bool penultimate_output = false;
  // If true, the output is "pooled" [width]: the last token's final state, through a projection
  // without bias if `projection`. If false, it is "last_hidden_state" [77, width].
  bool pooled = false;
  bool projection = false;
};

// Layers: embeddings, and self_attn and mlp of each encoder layer, then final_layer_norm. External
// input: "ids".
ComponentWork ClipText(const ClipTextOptions& options);

// The encoder of T5 v1.1 XXL: 24 layers of width 4096, 64 heads of 64, gated feed-forward of
// 10,240, 32,128 tokens. Output: "last_hidden_state" [length, 4096]. A component "t5_encoder".
ComponentWork T5XxlEncoder(int64_t length);

}  // namespace dpipe::roofline

#endif  // DPIPE_CORE_COST_ROOFLINE_TEXT_ENCODERS_H_
