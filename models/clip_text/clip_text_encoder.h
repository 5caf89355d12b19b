// CLIP's text encoder as a part of a latent pipeline.
#ifndef DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_ENCODER_H_
#define DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_ENCODER_H_

#include <string>

#include "core/base/status.h"
#include "models/clip_text/clip_text_config.h"
#include "models/folder/pipeline_folder.h"
#include "models/latent/latent_parts.h"

namespace dpipe::models {

struct ClipTextEncoder {
  ClipTextConfig config;
  TextEncoder encoder;  // ids -> last_hidden_state
};

// Reads the configuration in the subfolder `name` and the tokenizer in `tokenizer_name`. Returns
// InvalidArgument if the tokenizer has more tokens, or longer texts, than the encoder.
absl::StatusOr<ClipTextEncoder> ReadClipTextEncoder(const PipelineFolder& folder,
                                                    const std::string& name,
                                                    const std::string& tokenizer_name);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_ENCODER_H_
