#include "models/clip_text/clip_text_encoder.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/tokenizer/clip_tokenizer.h"

namespace dpipe::models {

absl::StatusOr<ClipTextEncoder> ReadClipTextEncoder(const PipelineFolder& folder,
                                                    const std::string& name,
                                                    const std::string& tokenizer_name,
                                                    const ClipTextOutputs& outputs) {
  DPIPE_ASSIGN_OR_RETURN(const ClipTextConfig config, ReadClipTextConfig(folder.ConfigOf(name)));
  DPIPE_ASSIGN_OR_RETURN(ClipTokenizer read, ClipTokenizer::Load(folder.PathOf(tokenizer_name)));
  const auto tokenizer = std::make_shared<const ClipTokenizer>(std::move(read));
  const int length = tokenizer->max_length();
  if (length > config.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.path(), ": the tokenizer's model_max_length is ", length,
                     ", but the text encoder has ", config.max_positions, " positions"));
  }
  if (tokenizer->vocab_size() > config.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.path(), ": the tokenizer has ", tokenizer->vocab_size(),
                     " tokens, but the text encoder's vocab_size is ", config.vocab_size));
  }
  TextEncoder encoder;
  encoder.name = name;
  encoder.tokenizer_name = tokenizer_name;
  encoder.tokenizer = tokenizer;
  encoder.build = [config, length, outputs] {
    return BuildClipText(config, length, nn::LayerKind::kFrozen, outputs);
  };
  encoder.ignored_prefixes = UnusedClipTextPrefixes(config, outputs);
  return ClipTextEncoder{config, std::move(encoder)};
}

}  // namespace dpipe::models
