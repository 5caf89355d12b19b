// The network of a latent pipeline that is trained: it predicts from noisy latents, timesteps,
// embeddings of text and further conditions. A model family implements this interface once; every
// other part of training, sampling, caching and profiling is shared.
//
// Training programs read "latents" and "noise" fp32 [height, width, latent_channels()],
// "timesteps" [] of the objective's element type, the embeddings and the conditions; their output
// "loss" is fp32 []. Drawing programs read "noisy_latents" fp32 and "timesteps" fp32 instead; their
// output "prediction" is fp32, shaped as the latents.
#ifndef DPIPE_MODELS_LATENT_DENOISER_H_
#define DPIPE_MODELS_LATENT_DENOISER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "core/nn/model.h"
#include "models/diffusion/objective.h"
#include "models/latent/condition.h"
#include "models/lora/kohya_layers.h"
#include "models/weights/weights.h"

namespace dpipe::models {

// Sources of a component's inputs, by input.
using Sources = std::map<std::string, nn::InputSource>;

// Name of the component that makes latents: pixels, vae_noise -> latents.
inline constexpr char kVaeEncoderName[] = "vae_encoder";

struct LatentSize {
  int64_t height = 0, width = 0;
};

struct DenoiserTraining {
  const diffusion::Objective* objective = nullptr;  // outlives the programs' building
  nn::LoraSpec lora = {};  // with a rank > 0, only low-rank adapters are trained
};

// The weights of a frozen component: a subfolder of the model's folder, and prefixes of names in it
// that belong to other components.
struct FrozenWeights {
  std::string subfolder;
  std::vector<std::string> ignored_prefixes;
};

// How to compute tensors, fp32, by name.
using ComputedTensors = std::map<std::string, std::function<absl::StatusOr<Tensor>()>>;

// Immutable and thread-safe.
class Denoiser {
 public:
  virtual ~Denoiser() = default;

  // The component and the subfolder: "unet", "transformer".
  virtual std::string name() const = 0;
  // The same for messages: "U-Net".
  virtual std::string title() const = 0;
  virtual int64_t latent_channels() const = 0;
  // Number of which both sides of latents must be multiples.
  virtual int size_multiple() const = 0;

  // Outputs of text encoders that it reads, by its input: states of tokens, pooled embeddings.
  virtual Sources embeddings() const = 0;
  virtual std::vector<std::shared_ptr<const Condition>> conditions() const { return {}; }
  // Names are empty if it does not read its own estimate.
  virtual nn::SelfConditioning self_conditioning() const { return {}; }
  // True if the guidance scale is one of its conditions, so that its predictions are guided.
  virtual bool embeds_guidance() const { return false; }
  // Layers that kohya-ss's files of adapters name or divide in another way than by the rule for
  // U-Nets (models/lora).
  virtual std::vector<KohyaLayer> kohya_layers() const { return {}; }

  virtual absl::StatusOr<nn::Program> BuildForTraining(const LatentSize& size,
                                                       const DenoiserTraining& training) const = 0;
  virtual absl::StatusOr<nn::Program> BuildForDrawing(const LatentSize& size) const = 0;

  // Returns the components behind the encoders, the trained one last. By default that is the
  // training program alone, fed by the encoders.
  virtual absl::StatusOr<std::vector<nn::Component>> MakeComponents(
      const LatentSize& size, const DenoiserTraining& training) const;
  // The weights of the frozen ones among them, in order.
  virtual std::vector<FrozenWeights> frozen_weights() const { return {}; }

  // Returns the program with the parameters that the subfolder name() holds, and turns them into
  // those of the training program. They differ if inputs were added.
  virtual absl::StatusOr<nn::Program> BuildStored(const LatentSize& size) const {
    return BuildForDrawing(size);
  }
  virtual void FromStored(NamedTensors* parameters) const {}
  // Tensors that the subfolder name() holds beside the parameters, and that programs compute: a
  // table of positions. They are saved with the parameters; a folder with other values is refused.
  virtual ComputedTensors computed_tensors() const { return {}; }
  // Returns the text of config.json to be saved, given the folder's; `source` names it in messages.
  virtual absl::StatusOr<std::string> SavedConfig(const std::string& config,
                                                  const std::string& source) const {
    return config;
  }

 protected:
  // Returns embeddings() and the source of "latents".
  Sources EncoderSources() const;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_DENOISER_H_
