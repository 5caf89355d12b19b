// Inputs of a cascade's training steps.
#ifndef DPIPE_MODELS_CASCADE_CASCADE_INPUTS_H_
#define DPIPE_MODELS_CASCADE_CASCADE_INPUTS_H_

#include <memory>
#include <string>

#include "core/runtime/input_provider.h"
#include "data/loader.h"
#include "models/cascade/cascade.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Both models read the same pictures; the small picture is the large one averaged over squares of
// pixels. Each model has its own noise and timesteps. The small picture's noise and noise level are
// drawn independently of them. If the table of classes has a row for "no class", labels are
// replaced by it as often as captions are dropped. Thread-safe. All pointers must outlive this
// object.
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
