// Times every layer of one component on the calling thread.
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
  std::vector<Nanos> forward_ns, input_grad_ns, weight_grad_ns;  // one a pass
  int64_t saved_bytes = 0;                                       // for the whole local batch
};

struct ComponentSamples {
  std::vector<LayerSamples> layers;
  std::vector<Nanos> load_ns;  // of the inputs that nobody computes, for the whole local batch
  // Of a backbone, in tensors of its device: before the first pass, and at most.
  int64_t held_bytes = 0, peak_bytes = 0;
};

// An input, and, added to `ns`, what having it takes a rank's thread: nothing of a GPU, where
// inputs are brought a step ahead by another one.
absl::StatusOr<Tensor> TimedLoad(const nn::Component& component, const std::string& input,
                                 int samples, const std::shared_ptr<Device>& device,
                                 const ProfilerInputs& inputs, Nanos* ns);

// A component that only runs forward, on `local_batch` samples: weights are shared, nothing is
// saved.
absl::StatusOr<ComponentSamples> TimeFrozen(const nn::Component& component,
                                            const nn::ParameterSet& parameters, int local_batch,
                                            const std::shared_ptr<Device>& device,
                                            const ProfilerInputs& inputs,
                                            const ProfilerOptions& options);

// The backbone, forward and backward. Inputs that other components feed are zeros.
absl::StatusOr<ComponentSamples> TimeBackbone(const nn::Component& component,
                                              nn::ParameterSet* parameters, int local_batch,
                                              const ProfilerInputs& inputs,
                                              const ProfilerOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_LAYER_TIMER_H_
