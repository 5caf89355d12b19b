// Inputs that read the offline cache, for Stable Diffusion or another backbone behind its encoders.
#ifndef DPIPE_MODELS_LATENT_CACHED_INPUTS_H_
#define DPIPE_MODELS_LATENT_CACHED_INPUTS_H_

#include <functional>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/device_worker.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Builds the FrozenCache, and TrainingInputs that read latents and contexts from it for every
// component. The model and the request's loader must outlive the result. Errors are those of
// FrozenCache::Build.
absl::StatusOr<CachedInputs> MakeCachedTrainingInputs(
    const StableDiffusion* model, const CacheRequest& request, const InputsOptions& options,
    const std::vector<DeviceWorker*>& workers, const std::function<void(double)>& on_progress);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_CACHED_INPUTS_H_
