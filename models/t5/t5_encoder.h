// T5's encoder as a part of a latent pipeline.
#ifndef DPIPE_MODELS_T5_T5_ENCODER_H_
#define DPIPE_MODELS_T5_T5_ENCODER_H_

#include <string>

#include "core/base/status.h"
#include "models/folder/pipeline_folder.h"
#include "models/latent/latent_parts.h"
#include "models/t5/t5.h"

namespace dpipe::models {

struct T5TextEncoder {
  T5Config config;
  TextEncoder encoder;  // ids -> last_hidden_state
};

// Number of tokens of every text, max_sequence_length in diffusers.
struct T5Length {
  int requested = 0;  // 0: `usual`, or the tokenizer's model_max_length if that is smaller
  int usual = 512;
};

// Reads the configuration in the subfolder `name` and the tokenizer in `tokenizer_name`. Returns
// InvalidArgument if the tokenizer has more tokens than the encoder.
absl::StatusOr<T5TextEncoder> ReadT5TextEncoder(const PipelineFolder& folder,
                                                const std::string& name,
                                                const std::string& tokenizer_name,
                                                const T5Length& length);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_T5_T5_ENCODER_H_
