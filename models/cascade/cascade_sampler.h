// Draws images with a cascade: first a small picture, then its enlargement.
#ifndef DPIPE_MODELS_CASCADE_CASCADE_SAMPLER_H_
#define DPIPE_MODELS_CASCADE_CASCADE_SAMPLER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/inference.h"
#include "core/tensor/device_worker.h"
#include "data/images/image.h"
#include "models/cascade/cascade.h"
#include "models/diffusion/draw_options.h"

namespace dpipe::models {

class CascadeSampler {
 public:
  // Copies the `parameters` of both models, by name (fp32). The cascade must outlive this object.
  static absl::StatusOr<std::unique_ptr<CascadeSampler>> Create(const Cascade* cascade,
                                                                const NamedTensors& parameters,
                                                                DType compute_dtype);

  // Returns one image per prompt; image i depends on (seed, i, prompt) alone. A prompt is a caption
  // that names a class; a model without classes ignores it. Guidance needs a row for "no class" and
  // is not applied without one. Both models take `num_steps` steps. The small picture is noised at
  // the cascade's noise_level() before it is enlarged. Work is spread over the workers, or over the
  // CPU's cores if GPUs have too little memory left.
  absl::StatusOr<std::vector<Image>> Draw(const std::vector<std::string>& prompts,
                                          const DrawOptions& options,
                                          const std::vector<DeviceWorker*>& workers,
                                          const std::function<void(double)>& on_progress) const;

 private:
  struct Network {
    std::unique_ptr<nn::Program> program;
    std::unique_ptr<nn::Inference> passes;
  };
  // A network's conditions, by input name.
  using Conditions = std::map<std::string, Tensor>;

  CascadeSampler() = default;
  absl::StatusOr<Conditions> BaseConditions(const std::vector<std::string>& prompts, bool guided,
                                            const std::shared_ptr<Device>& device) const;
  absl::StatusOr<Tensor> SampleWith(int part, const Conditions& conditions, float guidance,
                                    int count, int first, const DrawOptions& options,
                                    const std::shared_ptr<Device>& device,
                                    const std::function<void()>& on_step) const;
  absl::Status DrawBatch(const std::vector<std::string>& prompts, int first,
                         const DrawOptions& options, const std::shared_ptr<Device>& device,
                         const std::function<void()>& on_step, Image* images) const;

  const Cascade* cascade_ = nullptr;
  DType compute_dtype_ = DType::kF32;
  Network networks_[2];
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CASCADE_CASCADE_SAMPLER_H_
