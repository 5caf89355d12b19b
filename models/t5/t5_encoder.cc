#include "models/t5/t5_encoder.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/t5/t5.h"
#include "models/tokenizer/t5_tokenizer.h"

namespace dpipe::models {

absl::StatusOr<T5TextEncoder> ReadT5TextEncoder(const PipelineFolder& folder,
                                                const std::string& name,
                                                const std::string& tokenizer_name,
                                                const T5Length& length) {
  DPIPE_ASSIGN_OR_RETURN(const T5Config config, ReadT5Config(folder.ConfigOf(name)));
  const std::string path = folder.PathOf(tokenizer_name);
  int tokens = length.requested;
  if (tokens == 0) {
    DPIPE_ASSIGN_OR_RETURN(tokens, ReadModelMaxLength(path, length.usual));
  }
  DPIPE_ASSIGN_OR_RETURN(T5Tokenizer read, T5Tokenizer::Load(path, tokens));
  const auto tokenizer = std::make_shared<const T5Tokenizer>(std::move(read));
  if (tokenizer->vocab_size() > config.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.path(), ": ", tokenizer_name, " has ", tokenizer->vocab_size(),
                     " tokens, but the vocab_size of ", name, " is ", config.vocab_size));
  }
  TextEncoder encoder;
  encoder.name = name;
  encoder.tokenizer_name = tokenizer_name;
  encoder.tokenizer = tokenizer;
  encoder.build = [config, tokens] { return BuildT5Encoder(config, tokens); };
  encoder.ignored_prefixes = {kT5SecondTable};
  return T5TextEncoder{config, std::move(encoder)};
}

}  // namespace dpipe::models
