// For tests of model families: small folders in diffusers layout, and comparisons with PyTorch.
#ifndef DPIPE_MODELS_LATENT_TESTING_FAMILY_CHECK_H_
#define DPIPE_MODELS_LATENT_TESTING_FAMILY_CHECK_H_

#include <string>
#include <vector>

#include "models/latent/latent_pipeline.h"
#include "models/testdata/golden_check.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {

// Number of tokens of texts for T5 in small folders, its tokenizer's model_max_length.
inline constexpr int kSmallT5Tokens = 24;

// Replaces `folder` by a copy of `testdata`, a pipeline that lacks its tokenizers, and adds those
// that its index names: the vocabulary of data/tiny_sd for CLIP, and that of
// models/tokenizer/testdata/t5 for T5.
void WriteSmallFolder(const std::string& testdata, const std::string& folder);

// Sets keys of a JSON file; null removes a key.
void EditJson(const std::string& path, const nlohmann::ordered_json& changes);

// Returns LoadDenoiser's weights.
NamedTensors DenoiserOf(const LatentPipeline& pipeline);

// True if shape, dtype and all bits are the same.
bool SameBits(const Tensor& a, const Tensor& b);

// Adds adapters whose up parts are not zero, if the pipeline trains adapters.
void SetAdapters(NamedTensors* parameters);

// A training step with the folder's weights, beside the goldens "train/losses" and
// "train/gradient/<parameter>" of the mean of the losses. Errors are relative L2 norms.
struct StepErrors {
  double losses = 0;
  // The worst parameter. Gradients of less than 1e-6 of the largest are left out: only rounding
  // contributes to the gradient of a bias of keys.
  double gradient = 0;
  std::string parameter;
  int num_trained = 0;  // parameters
};

// Reads "train/noise" and "train/timesteps", the texts' embeddings and the values of conditions in
// training. `latents` are scaled and shifted.
StepErrors CompareStep(const LatentPipeline& pipeline, const std::vector<std::string>& texts,
                       const Tensor& latents, const Goldens& goldens);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_TESTING_FAMILY_CHECK_H_
