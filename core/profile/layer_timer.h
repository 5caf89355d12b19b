// Times all layers of one component on the calling thread.
#ifndef DPIPE_CORE_PROFILE_LAYER_TIMER_H_
#define DPIPE_CORE_PROFILE_LAYER_TIMER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/nn/execution.h"
#include "core/nn/model.h"
#include "core/nn/parameters.h"
#include "core/profile/profiler.h"
#include "core/tensor/device_graphs.h"

namespace dpipe {

// Runs the work of single layers for the profiler: call by call, or as recorded graphs.
//
// Runs repeated passes over a component. Each pass runs the same works in the same order. With
// graphs, each work is measured in one pass, recorded in the next, and launched from then on.
// Launches reuse the values of the recording, because only the time matters. Only the device's
// thread may use this.
class LayerRunner {
 public:
  // If `graphs` is null, all work runs normally. The first `warmup_passes` passes are the warm-up.
  LayerRunner(DeviceGraphs* graphs, int warmup_passes)
      : graphs_(graphs), warmup_passes_(warmup_passes) {}

  // Returns the number of initial passes whose times do not count.
  int passes_to_skip() const { return graphs_ == nullptr ? warmup_passes_ : record_pass() + 2; }

  void BeginPass() {
    ++pass_;
    next_ = 0;
  }
  // Keeps external values of the pass's works alive, because graphs continue to use them.
  void Keep(const nn::ValueMap& values);
  absl::Status Run(const std::function<absl::Status()>& work);
  // True if the works of this pass are launched as graphs and therefore produce no new values.
  bool launches() const { return graphs_ != nullptr && pass_ > record_pass(); }

  // Not OK if Run has failed because the work cannot be recorded.
  const absl::Status& refusal() const { return refusal_; }

 private:
  struct Work {
    int64_t memory_bytes = 0;
    std::unique_ptr<DeviceGraph> graph;
  };

  // At least the first pass runs normally: libraries choose algorithms, and weights are prepared.
  int measure_pass() const { return warmup_passes_ > 1 ? warmup_passes_ : 1; }
  int record_pass() const { return measure_pass() + 1; }

  DeviceGraphs* const graphs_;
  const int warmup_passes_;
  int pass_ = -1;
  size_t next_ = 0;          // index in works_
  std::vector<Work> works_;  // in order; the same for all passes
  std::vector<nn::ValueMap> kept_;
  absl::Status refusal_;
};

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
