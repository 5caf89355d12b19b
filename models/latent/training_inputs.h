// Inputs of a training step of a latent pipeline: pixels, tokens and conditions from a data set;
// noise and timesteps drawn by (seed, step, sample); frozen outputs from the offline cache.
#ifndef DPIPE_MODELS_LATENT_TRAINING_INPUTS_H_
#define DPIPE_MODELS_LATENT_TRAINING_INPUTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/runtime/input_provider.h"
#include "core/tensor/device_worker.h"
#include "data/loader.h"
#include "models/latent/frozen_cache.h"
#include "models/latent/latent_pipeline.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Thread-safe. The pipeline and the loader must outlive this object.
class TrainingInputs : public InputProvider {
 public:
  // Without a cache, frozen outputs are Unimplemented.
  TrainingInputs(const LatentPipeline* pipeline, DataLoader* loader, const InputsOptions& options,
                 std::unique_ptr<const FrozenCache> cache = nullptr);

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override;

 private:
  absl::StatusOr<Tensor> Pixels(int64_t step, SampleRange samples,
                                const std::shared_ptr<Device>& device);
  // Returns the samples' captions, some of them replaced by the empty caption.
  absl::StatusOr<std::vector<std::string>> Captions(int64_t step, SampleRange samples);
  absl::StatusOr<Tensor> Ids(const Tokenizer& tokenizer, int64_t step, SampleRange samples,
                             const std::shared_ptr<Device>& device);
  Tensor Timesteps(int64_t step, SampleRange samples, const std::shared_ptr<Device>& device) const;
  // Returns the shape of the samples' latents.
  Shape LatentShape(int64_t step, SampleRange samples) const;
  Tensor Noise(RandomPurpose purpose, int64_t step, SampleRange samples,
               const std::shared_ptr<Device>& device) const;
  // Returns a frozen component's output from the cache; Unimplemented if it is not cached.
  absl::StatusOr<Tensor> Cached(const std::string& component, const std::string& input,
                                const nn::InputSource& source, int64_t step, SampleRange samples,
                                const std::shared_ptr<Device>& device);

  const LatentPipeline* const pipeline_;
  DataLoader* const loader_;
  const InputsOptions options_;
  const std::unique_ptr<const FrozenCache> cache_;
};

// Builds the FrozenCache, and TrainingInputs that read latents and embeddings from it for every
// component. If the denoiser has frozen components, which read draws of the step, the rest of the
// model is that behind the encoders. The pipeline and the request's loader must outlive the result.
// Errors are those of FrozenCache::Build.
absl::StatusOr<CachedInputs> MakeCachedTrainingInputs(
    const LatentPipeline* pipeline, const CacheRequest& request, const InputsOptions& options,
    const std::vector<DeviceWorker*>& workers, const std::function<void(double)>& on_progress);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_TRAINING_INPUTS_H_
