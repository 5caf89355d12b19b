// A rank's source of inputs that no other component computes: pixels, tokens, noise, timesteps.
#ifndef DPIPE_CORE_RUNTIME_INPUT_PROVIDER_H_
#define DPIPE_CORE_RUNTIME_INPUT_PROVIDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Called by every rank's thread, so implementations are thread-safe. The results are a function of
// (component, input, step, sample) alone, independent of caller, time and grouping of samples.
class InputProvider {
 public:
  virtual ~InputProvider() = default;

  // Returns samples [begin, end) of step `step` of an external input, as a tensor [samples, ...] on
  // `device` in the element type that the program states. If a plan uses cached frozen outputs,
  // also called for inputs that a frozen component would otherwise feed.
  virtual absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input,
                                      int64_t step, SampleRange samples,
                                      const std::shared_ptr<Device>& device) = 0;
};

// Loads an input for any device. Data for a device that host code cannot write to is copied from
// the host.
inline absl::StatusOr<Tensor> LoadInput(InputProvider& inputs, const std::string& component,
                                        const std::string& input, int64_t step, SampleRange samples,
                                        const std::shared_ptr<Device>& device) {
  if (device->has_host_memory()) return inputs.Load(component, input, step, samples, device);
  // Keeps one allocator, whose blocks are reused.
  static const auto* const host = new std::shared_ptr<Device>(Device::Cpu());
  DPIPE_ASSIGN_OR_RETURN(const Tensor loaded, inputs.Load(component, input, step, samples, *host));
  return loaded.CopyTo(device);
}

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_INPUT_PROVIDER_H_
