// What a latent diffusion model consists of: a VAE, text encoders, an objective and a denoiser. A
// model family makes it from a folder's configurations. It holds no weights, so it is cheap at any
// size: profiles are made from it, and pipelines load weights into it.
#ifndef DPIPE_MODELS_LATENT_LATENT_PARTS_H_
#define DPIPE_MODELS_LATENT_LATENT_PARTS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "core/nn/model.h"
#include "data/images/image.h"
#include "models/diffusion/objective.h"
#include "models/folder/pipeline_folder.h"
#include "models/folder/scheduler_file.h"
#include "models/latent/denoiser.h"
#include "models/tokenizer/tokenizer.h"
#include "models/vae/vae_config.h"

namespace dpipe::models {

// A frozen text encoder: "ids" int32 [tokenizer->max_length()] -> outputs that the denoiser names.
struct TextEncoder {
  std::string name;            // of the component and the subfolder: "text_encoder_2"
  std::string tokenizer_name;  // of the subfolder: "tokenizer_2"
  std::shared_ptr<const Tokenizer> tokenizer;
  std::function<absl::StatusOr<nn::Program>()> build;
  std::vector<std::string> ignored_prefixes;  // of names in its weights that are not read
};

// Immutable once made.
struct LatentParts {
  explicit LatentParts(PipelineFolder from) : folder(std::move(from)) {}

  PipelineFolder folder;
  VaeConfig vae;
  std::vector<TextEncoder> text_encoders;
  SchedulerFile scheduler;
  std::shared_ptr<const diffusion::Objective> objective;
  std::shared_ptr<const Denoiser> denoiser;
  int image_size = 0;  // pixels per side
  // True if the unconditional half of guidance reads zeros instead of the embeddings of no text.
  bool zeros_without_text = false;
  nn::LoraSpec lora = {};
  // See LoadModelOptions. The VAE, which is small, is kept in fp32.
  ops::WeightStorage base_storage = ops::WeightStorage::kFp32;
  ops::WeightStorage frozen_storage = ops::WeightStorage::kFp32;
  std::vector<std::string> notes;  // sentences for the user about the configurations

  // Returns the number of which the sides of pictures must be multiples: the VAE's factor times the
  // denoiser's.
  int size_multiple() const;
  LatentSize LatentSizeOf(ImageSize size) const;
  // Returns the program of "vae_encoder".
  absl::StatusOr<nn::Program> MakeVaeEncoder(ImageSize size) const;
  // Returns "vae_encoder" and the text encoders. Returns InvalidArgument if a side is not a
  // multiple of size_multiple().
  absl::StatusOr<std::vector<nn::Component>> MakeEncoders(ImageSize size) const;
  // Returns the denoiser's components.
  absl::StatusOr<std::vector<nn::Component>> MakeDenoiser(ImageSize size) const;
  // Returns all components: the encoders, then the denoiser's.
  absl::StatusOr<std::vector<nn::Component>> MakeComponents(ImageSize size) const;
};

// Reads the VAE's configuration. Returns InvalidArgument if its pictures are not of red, green and
// blue, or if its latents have other channels than those of the network `title`.
absl::StatusOr<VaeConfig> ReadVae(const PipelineFolder& folder, int64_t latent_channels,
                                  const std::string& title);

// Returns InvalidArgument if the VAE shifts its latents, which diffusers' pipelines with a U-Net
// ignore, so that pictures would differ there. `path` is that of its configuration.
absl::Status CheckNoShift(const VaeConfig& vae, const std::string& path);

// Returns the pixels per side for latents of `sample_size` in the denoiser's configuration, or
// `wanted` if that is not 0. Returns InvalidArgument if the former are too many.
absl::StatusOr<int> ChooseImageSize(int wanted, int64_t sample_size, const VaeConfig& vae,
                                    const std::string& config_path);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_LATENT_PARTS_H_
