// Times all layers of one component on the calling thread.
#ifndef DPIPE_CORE_PROFILE_LAYER_TIMER_H_
#define DPIPE_CORE_PROFILE_LAYER_TIMER_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/nn/model.h"
#include "core/nn/parameters.h"
#include "core/profile/profiler.h"

namespace dpipe {

struct LayerSamples {
  std::vector<Nanos> forward_ns, input_grad_ns, weight_grad_ns;  // one per pass
  int64_t saved_bytes = 0;                                       // for the whole local batch
};

struct ComponentSamples {
  std::vector<LayerSamples> layers;
  std::vector<Nanos> load_ns;  // loading of inputs without a producer, per local batch
  // For a backbone: bytes in tensors of its device before the first pass, and the maximum.
  int64_t held_bytes = 0, peak_bytes = 0;
};

// Loads an input, and adds to `ns` the time that this takes on a rank's thread. On a GPU it adds
// nothing, because another thread brings inputs a step ahead.
absl::StatusOr<Tensor> TimedLoad(const nn::Component& component, const std::string& input,
                                 int samples, const std::shared_ptr<Device>& device,
                                 const ProfilerInputs& inputs, Nanos* ns);

// Times a component that only runs forward, on `local_batch` samples. Weights are shared, and
// nothing is saved for backward passes.
absl::StatusOr<ComponentSamples> TimeFrozen(const nn::Component& component,
                                            const nn::ParameterSet& parameters, int local_batch,
                                            const std::shared_ptr<Device>& device,
                                            const ProfilerInputs& inputs,
                                            const ProfilerOptions& options);

// Times the backbone, forward and backward. Inputs that other components produce are zeros.
absl::StatusOr<ComponentSamples> TimeBackbone(const nn::Component& component,
                                              nn::ParameterSet* parameters, int local_batch,
                                              const ProfilerInputs& inputs,
                                              const ProfilerOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_LAYER_TIMER_H_
