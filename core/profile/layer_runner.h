// How the profiler runs the work of single layers: call by call, or as recorded graphs.
#ifndef DPIPE_CORE_PROFILE_LAYER_RUNNER_H_
#define DPIPE_CORE_PROFILE_LAYER_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/nn/execution.h"
#include "core/tensor/device_graphs.h"

namespace dpipe {

// Repeated passes over a component, each of which runs the same works in the same order. With
// graphs each work is measured in one pass, recorded in the next and launched from then on, with
// the values of the recording: it is the time that counts. Used by the device's thread.
class LayerRunner {
 public:
  // `graphs` null: everything runs as always. Warmed up is what has run `warmup_passes` times.
  LayerRunner(DeviceGraphs* graphs, int warmup_passes)
      : graphs_(graphs), warmup_passes_(warmup_passes) {}

  // Passes whose times do not count, the first ones.
  int passes_to_skip() const { return graphs_ == nullptr ? warmup_passes_ : record_pass() + 2; }

  void BeginPass() {
    ++pass_;
    next_ = 0;
  }
  // What the pass's works use from outside; graphs go on using it.
  void Keep(const nn::ValueMap& values);
  absl::Status Run(const std::function<absl::Status()>& work);
  // Whether this pass's works are launched, so that what they would make is not made.
  bool launches() const { return graphs_ != nullptr && pass_ > record_pass(); }

  // Not OK where Run has failed because its work cannot be recorded.
  const absl::Status& refusal() const { return refusal_; }

 private:
  struct Work {
    int64_t memory_bytes = 0;
    std::unique_ptr<DeviceGraph> graph;
  };

  // The first pass at least runs as always: libraries choose what they run, weights are prepared.
  int measure_pass() const { return warmup_passes_ > 1 ? warmup_passes_ : 1; }
  int record_pass() const { return measure_pass() + 1; }

  DeviceGraphs* const graphs_;
  const int warmup_passes_;
  int pass_ = -1;
  size_t next_ = 0;          // of works_
  std::vector<Work> works_;  // of each pass
  std::vector<nn::ValueMap> kept_;
  absl::Status refusal_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_LAYER_RUNNER_H_
