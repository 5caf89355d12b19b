// CLIP's text encoder as a Program (transformers CLIPTextModel). Parameters are named and shaped as
// in transformers' checkpoints.
#ifndef DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_H_
#define DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_H_

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/clip_text/clip_text_config.h"

namespace dpipe::models {

// Builds the program. External input: "ids" int32 [length]. Output: "last_hidden_state"
// [length, hidden_size] in the compute dtype, after the final layer norm. Attention is causal: a
// token attends to itself and to earlier tokens. Returns InvalidArgument if the length is not in
// [1, max_positions].
absl::StatusOr<nn::Program> BuildClipText(const ClipTextConfig& config, int64_t length,
                                          nn::LayerKind kind = nn::LayerKind::kFrozen);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_H_
