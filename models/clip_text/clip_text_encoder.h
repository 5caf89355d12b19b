// CLIP's text encoder as a part of a latent pipeline.
#ifndef DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_ENCODER_H_
#define DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_ENCODER_H_

#include <string>

#include "core/base/status.h"
#include "models/clip_text/clip_text.h"
#include "models/folder/pipeline_folder.h"
#include "models/latent/latent_parts.h"

namespace dpipe::models {

struct ClipTextEncoder {
  ClipTextConfig config;
  TextEncoder encoder;  // ids -> the outputs asked for
};

// Reads the configuration in the subfolder `name` (CLIPTextModel or CLIPTextModelWithProjection)
// and the tokenizer in `tokenizer_name`. The encoder computes `outputs`; weights that these do not
// need may be absent or present. Returns InvalidArgument if the tokenizer has more tokens, or
// longer texts, than the encoder.
absl::StatusOr<ClipTextEncoder> ReadClipTextEncoder(const PipelineFolder& folder,
                                                    const std::string& name,
                                                    const std::string& tokenizer_name,
                                                    const ClipTextOutputs& outputs = {});

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CLIP_TEXT_CLIP_TEXT_ENCODER_H_
