// Inputs of a training step of Stable Diffusion, or of a ControlNet for it: pixels, tokens and
// condition pictures from a data set; noise and timesteps drawn by (seed, step, sample).
#ifndef DPIPE_MODELS_LATENT_TRAINING_INPUTS_H_
#define DPIPE_MODELS_LATENT_TRAINING_INPUTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/runtime/input_provider.h"
#include "data/loader.h"
#include "models/latent/frozen_cache.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Thread-safe. All pointers must outlive this object.
class TrainingInputs : public InputProvider {
 public:
  TrainingInputs(const StableDiffusion* model, DataLoader* loader, const InputsOptions& options)
      : model_(model),
        loader_(loader),
        options_(options),
        timesteps_(options.timesteps, model->schedule()) {}

  // Provides cached frozen outputs, which are Unimplemented without a cache. Not thread-safe.
  void UseCache(const FrozenCache* cache) { cache_ = cache; }

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override;

 private:
  absl::StatusOr<Tensor> Pixels(int64_t step, SampleRange samples,
                                const std::shared_ptr<Device>& device);
  absl::StatusOr<Tensor> Conditions(int64_t step, SampleRange samples,
                                    const std::shared_ptr<Device>& device);
  absl::StatusOr<std::vector<std::vector<int32_t>>> Tokens(int64_t step, SampleRange samples);
  absl::StatusOr<Tensor> Ids(int64_t step, SampleRange samples,
                             const std::shared_ptr<Device>& device);
  Tensor Timesteps(int64_t step, SampleRange samples, const std::shared_ptr<Device>& device) const;
  Tensor Coordinates(int64_t step, SampleRange samples,
                     const std::shared_ptr<Device>& device) const;
  // Returns the shape of an input that is shaped as latents.
  Shape LatentShape(const nn::Program& program, const std::string& input, int64_t step,
                    SampleRange samples) const;
  Tensor Noise(const nn::Program& program, const std::string& input, RandomPurpose purpose,
               int64_t step, SampleRange samples, const std::shared_ptr<Device>& device) const;
  absl::StatusOr<Tensor> CachedLatents(int64_t step, SampleRange samples,
                                       const std::shared_ptr<Device>& device);

  const StableDiffusion* const model_;
  DataLoader* const loader_;
  const InputsOptions options_;
  const diffusion::TimestepDistribution timesteps_;
  const FrozenCache* cache_ = nullptr;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_TRAINING_INPUTS_H_
