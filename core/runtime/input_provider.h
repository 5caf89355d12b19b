// Where a rank gets what no other component computes: pixels, tokens, noise, timesteps.
#ifndef DPIPE_CORE_RUNTIME_INPUT_PROVIDER_H_
#define DPIPE_CORE_RUNTIME_INPUT_PROVIDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Called by every rank's thread, so implementations are thread-safe. What they return is a function
// of (component, input, step, sample) alone: it does not matter who asks, when, or in what pieces.
class InputProvider {
 public:
  virtual ~InputProvider() = default;

  // Samples [begin, end) of step `step` of an external input, as a tensor [samples, ...] on
  // `device` in the element type that the program states. Also asked, where a plan uses cached
  // frozen outputs, for inputs that a frozen component would feed.
  virtual absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input,
                                      int64_t step, SampleRange samples,
                                      const std::shared_ptr<Device>& device) = 0;
};

// Load on any device: what host code cannot write to is filled from the host.
inline absl::StatusOr<Tensor> LoadInput(InputProvider& inputs, const std::string& component,
                                        const std::string& input, int64_t step, SampleRange samples,
                                        const std::shared_ptr<Device>& device) {
  if (device->has_host_memory()) return inputs.Load(component, input, step, samples, device);
  // Blocks of this allocator are used again and again.
  static const auto* const host = new std::shared_ptr<Device>(Device::Cpu());
  DPIPE_ASSIGN_OR_RETURN(const Tensor loaded, inputs.Load(component, input, step, samples, *host));
  return loaded.CopyTo(device);
}

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_INPUT_PROVIDER_H_
