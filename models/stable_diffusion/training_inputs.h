// What a training step of Stable Diffusion reads: pixels and tokens from a data set, noise and
// timesteps drawn by (seed, step, sample).
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_TRAINING_INPUTS_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_TRAINING_INPUTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/runtime/input_provider.h"
#include "data/loader.h"
#include "models/stable_diffusion/frozen_cache.h"
#include "models/stable_diffusion/stable_diffusion.h"

namespace dpipe::models {

struct TrainingInputsOptions {
  uint64_t seed = 0;
  double caption_drop =
      0.1;  // share of captions replaced by the empty one, for classifier-free guidance
  // The VAE's latents are its posterior's mean: no noise of its own is added to them.
  bool mean_latents = false;
  DType compute_dtype = DType::kF32;
};

// Thread-safe. Everything pointed to outlives it.
class TrainingInputs : public InputProvider {
 public:
  TrainingInputs(const StableDiffusion* model, DataLoader* loader,
                 const TrainingInputsOptions& options)
      : model_(model), loader_(loader), options_(options) {}

  // From now on cached frozen outputs can be asked for; before, they are Unimplemented. Not
  // thread-safe.
  void UseCache(const FrozenCache* cache) { cache_ = cache; }

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override;

 private:
  absl::StatusOr<Tensor> Pixels(int64_t step, SampleRange samples,
                                const std::shared_ptr<Device>& device);
  absl::StatusOr<std::vector<std::vector<int32_t>>> Tokens(int64_t step, SampleRange samples);
  absl::StatusOr<Tensor> Ids(int64_t step, SampleRange samples,
                             const std::shared_ptr<Device>& device);
  Tensor Noise(const nn::Program& program, const std::string& input, RandomPurpose purpose,
               int64_t step, SampleRange samples, const std::shared_ptr<Device>& device) const;
  absl::StatusOr<Tensor> CachedLatents(int64_t step, SampleRange samples,
                                       const std::shared_ptr<Device>& device);

  const StableDiffusion* const model_;
  DataLoader* const loader_;
  const TrainingInputsOptions options_;
  const FrozenCache* cache_ = nullptr;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_TRAINING_INPUTS_H_
