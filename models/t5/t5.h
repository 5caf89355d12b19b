// T5 v1.1's encoder as a Program (transformers T5EncoderModel). Parameters are named and shaped as
// in transformers' checkpoints.
//
// Unlike CLIP's text encoder: tokens attend to all tokens, without a mask for padding, as in the
// pipelines of Stable Diffusion 3 and FLUX.1; scores are not scaled and have a relative position
// bias, which all layers share; norms are RMS norms; there are no biases.
#ifndef DPIPE_MODELS_T5_T5_H_
#define DPIPE_MODELS_T5_T5_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/nn/program.h"

namespace dpipe::models {

// The configuration of a T5 v1.1 encoder (transformers T5EncoderModel), from its config.json.
//
// The defaults are those of T5 v1.1 XXL, the encoder of Stable Diffusion 3 and FLUX.1.
struct T5Config {
  int64_t vocab_size = 32128;
  int64_t width = 4096;         // d_model
  int64_t head_size = 64;       // d_kv; heads * head_size need not be the width
  int64_t inner_width = 10240;  // d_ff
  int64_t num_layers = 24;
  int64_t num_heads = 64;
  int64_t num_buckets = 32;  // of the relative position bias
  int64_t max_distance = 128;
  double norm_eps = 1e-6;
};

// Parses the text of a config.json; `source` names the file in messages. Returns InvalidArgument
// with the problems of up to five keys if values are wrong or not supported, such as the
// feed-forward networks without gates of T5 v1.0.
absl::StatusOr<T5Config> ParseT5Config(const std::string& json, const std::string& source);
absl::StatusOr<T5Config> ReadT5Config(const std::string& path);

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
