// Draws with a latent pipeline from given noise, to compare with diffusers step by step.
#ifndef DPIPE_MODELS_LATENT_TESTING_DRAW_FROM_NOISE_H_
#define DPIPE_MODELS_LATENT_TESTING_DRAW_FROM_NOISE_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/tensor.h"
#include "models/diffusion/draw_options.h"
#include "models/latent/latent_pipeline.h"

namespace dpipe::models {

// Returns a program's outputs by name, given its inputs and its parameters.
absl::StatusOr<NamedTensors> RunProgram(const nn::Program& program,
                                        const nn::ParameterSet& parameters,
                                        const NamedTensors& inputs);

// Returns the embeddings that the denoiser reads, by its input, with a row per text.
absl::StatusOr<NamedTensors> EmbedTexts(const LatentPipeline& pipeline,
                                        const std::vector<std::string>& texts);

// Draws one image of the pipeline's size per prompt, in fp32, from `noise` [prompts, h, w, c].
// `weights` are those of LoadDenoiser. Returns "latents", shaped as the noise, and "pixels"
// [prompts, H, W, 3], not clamped.
absl::StatusOr<NamedTensors> DrawFromNoise(const LatentPipeline& pipeline,
                                           const NamedTensors& weights,
                                           const std::vector<std::string>& prompts,
                                           const DrawOptions& options, const Tensor& noise);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_TESTING_DRAW_FROM_NOISE_H_
