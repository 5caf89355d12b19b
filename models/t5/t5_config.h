// The configuration of a T5 v1.1 encoder (transformers T5EncoderModel), from its config.json.
#ifndef DPIPE_MODELS_T5_T5_CONFIG_H_
#define DPIPE_MODELS_T5_T5_CONFIG_H_

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace dpipe::models {

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

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_T5_T5_CONFIG_H_
