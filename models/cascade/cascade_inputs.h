// What a training step of a cascade reads.
#ifndef DPIPE_MODELS_CASCADE_CASCADE_INPUTS_H_
#define DPIPE_MODELS_CASCADE_CASCADE_INPUTS_H_

#include <memory>
#include <string>

#include "core/runtime/input_provider.h"
#include "data/loader.h"
#include "models/cascade/cascade.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Both models read the same pictures: the small one is the means of its squares of pixels. Each has
// noise and timesteps of its own, and the small picture's noise and its level are drawn apart. A
// label is replaced by "no class" as often as captions are dropped, where there is that.
// Thread-safe. Everything pointed to outlives it.
class CascadeInputs : public InputProvider {
 public:
  CascadeInputs(const Cascade* cascade, DataLoader* loader, const InputsOptions& options)
      : cascade_(cascade), loader_(loader), options_(options) {}

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override;

 private:
  absl::StatusOr<Tensor> Pixels(int64_t step, SampleRange samples, ImageSize size,
                                const std::shared_ptr<Device>& device);
  absl::StatusOr<Tensor> Labels(int64_t step, SampleRange samples,
                                const std::shared_ptr<Device>& device);
  Tensor Noise(uint64_t seed, int64_t step, SampleRange samples, ImageSize size, bool offset,
               const std::shared_ptr<Device>& device) const;
  Tensor Timesteps(uint64_t seed, const CascadePart& part, int64_t step, SampleRange samples,
                   const std::shared_ptr<Device>& device) const;

  const Cascade* const cascade_;
  DataLoader* const loader_;
  const InputsOptions options_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CASCADE_CASCADE_INPUTS_H_
