// T5 v1.1's encoder as a Program (transformers T5EncoderModel). Parameters are named and shaped as
// in transformers' checkpoints.
//
// Unlike CLIP's text encoder: tokens attend to all tokens, without a mask for padding, as in the
// pipelines of Stable Diffusion 3 and FLUX.1; scores are not scaled and have a relative position
// bias, which all layers share; norms are RMS norms; there are no biases.
#ifndef DPIPE_MODELS_T5_T5_H_
#define DPIPE_MODELS_T5_T5_H_

#include "core/base/status.h"
#include "core/nn/program.h"
#include "models/t5/t5_config.h"

namespace dpipe::models {

// Checkpoints may hold the token table, "shared.weight", a second time under a name with this
// prefix; pass it to LoadWeightsOptions::ignored_prefixes.
inline constexpr char kT5SecondTable[] = "encoder.embed_tokens.";

// Builds the program. External input: "ids" int32 [length]. Output: "last_hidden_state" [length,
// width] in the compute dtype, after the final norm. Returns InvalidArgument if the length is below
// 1.
//
// Layers: the token table with the position bias; for each block the attention and the feed-forward
// network; the final norm. The bias, kF32 [heads, 2 * length - 1], is read by every block, so it
// crosses every cut.
absl::StatusOr<nn::Program> BuildT5Encoder(const T5Config& config, int64_t length,
                                           nn::LayerKind kind = nn::LayerKind::kFrozen);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_T5_T5_H_
