#include "models/latent/cached_inputs.h"

#include <memory>
#include <string>
#include <utility>

#include "models/latent/frozen_cache.h"
#include "models/latent/training_inputs.h"

namespace dpipe::models {
namespace {

// Inputs that own their cache.
class InputsWithCache : public InputProvider {
 public:
  InputsWithCache(const StableDiffusion* model, DataLoader* loader, const InputsOptions& options,
                  std::unique_ptr<FrozenCache> cache)
      : cache_(std::move(cache)), inputs_(model, loader, options) {
    inputs_.UseCache(cache_.get());
  }

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    return inputs_.Load(component, input, step, samples, device);
  }

 private:
  const std::unique_ptr<FrozenCache> cache_;
  TrainingInputs inputs_;
};

}  // namespace

absl::StatusOr<CachedInputs> MakeCachedTrainingInputs(
    const StableDiffusion* model, const CacheRequest& request, const InputsOptions& options,
    const std::vector<DeviceWorker*>& workers, const std::function<void(double)>& on_progress) {
  FrozenCache::Request build;
  build.model = model;
  build.loader = request.loader;
  build.first_step = request.first_step;
  build.num_steps = request.num_steps;
  build.profiled_step = request.profiled_step;
  build.quantum = request.frozen_quantum;
  build.compute_dtype = options.compute_dtype;
  build.cache_folder = request.cache_folder;
  DPIPE_ASSIGN_OR_RETURN(auto cache, FrozenCache::Build(build, workers, on_progress));
  CachedInputs inputs;
  inputs.num_images = cache->num_images();
  inputs.num_captions = cache->num_captions();
  inputs.num_computed = cache->num_computed();
  inputs.num_damaged = cache->num_damaged();
  inputs.size_bytes = cache->size_bytes();
  inputs.provider =
      std::make_unique<InputsWithCache>(model, request.loader, options, std::move(cache));
  return inputs;
}

}  // namespace dpipe::models
