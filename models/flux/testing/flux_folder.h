// A small FLUX.1 folder for tests, with random weights that diffusers wrote.
#ifndef DPIPE_MODELS_FLUX_TESTING_FLUX_FOLDER_H_
#define DPIPE_MODELS_FLUX_TESTING_FLUX_FOLDER_H_

#include <string>

namespace dpipe::models {

// Tokens of its texts for T5, its tokenizer's model_max_length.
inline constexpr int kSmallFluxTokens = 24;

// Writes models/flux/testdata/tiny with the tokenizers of data/tiny_sd and of
// models/tokenizer/testdata/t5. Replaces `folder`. Images have 32 x 32 pixels.
void WriteSmallFlux(const std::string& folder);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FLUX_TESTING_FLUX_FOLDER_H_
