// Times a model's layers on this machine.
//
// Every worker runs the same measurements at the same time, because devices of one machine share
// caches, memory bandwidth and clock: what a layer costs alone is not what it costs in a pipeline.
// Layers are timed in their natural order, one pass over the program after another, so that each
// finds the caches as it would in training. Passes are taken in rounds, each of which times every
// component at every local batch: a machine that others slow down for a few seconds then does not
// have one local batch look dearer than the next. Where passes will be launched as recorded graphs,
// so are the layers that are timed: what the host takes to enqueue them does not count then. See
// typical_times.h for how samples become one time.
//
// A local batch that a device has no memory for, going by what the smaller ones took, ends the list
// of a backbone's; the profile's provenance says which and why.
#ifndef DPIPE_CORE_PROFILE_PROFILER_H_
#define DPIPE_CORE_PROFILE_PROFILER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/nn/parameters.h"
#include "core/proto/profile.pb.h"
#include "core/tensor/device_worker.h"

namespace dpipe {

struct ProfilerOptions {
  std::vector<int> local_batches;  // of the backbone, increasing
  int frozen_quantum = 1;          // the local batch of frozen components
  int warmup_passes = 2;           // of the first round, in which kernels are planned; later: 1
  int passes = 15;                 // in all rounds
  int passes_a_round = 3;          // at least, where there are as many
  bool graphs = false;             // layers run as recorded graphs, on devices that have them
  DType compute_dtype = DType::kF32;
  std::string device_name;
  // What tensors can have of each worker's device; 0, or nothing here: no limit is known.
  std::vector<int64_t> usable_bytes;
  // Gets what has been timed so far whenever there is more of it, as soon as it could be planned
  // with: after each local batch of the first round, then after each round.
  std::function<void(const ModelProfile&)> so_far;
};

// What the profiler needs to know of the model besides its programs. Called on workers' threads.
struct ProfilerInputs {
  // `samples` samples of an external input that no component feeds; for the backbone also of inputs
  // that a frozen component feeds, as from a cache (Unimplemented where there is none).
  std::function<absl::StatusOr<Tensor>(const nn::Component& component, const std::string& input,
                                       int samples, const std::shared_ptr<Device>& device)>
      load;
  // By component; null for the backbone.
  std::vector<const nn::ParameterSet*> frozen_parameters;
  // The backbone's parameters, by name.
  const std::map<std::string, Tensor>* backbone_parameters = nullptr;
  // A function that does one whole optimizer step, norm included, on a parameter set.
  using OptimizerStepFn = std::function<absl::Status(nn::ParameterSet*)>;
  std::function<OptimizerStepFn(const nn::ParameterSet&)> make_optimizer;
};

// Errors name the component and layer. `on_progress`, if set, gets the share done in [0, 1].
absl::StatusOr<ModelProfile> ProfileModel(const nn::Model& model,
                                          const std::vector<DeviceWorker*>& workers,
                                          const ProfilerInputs& inputs,
                                          const ProfilerOptions& options,
                                          const std::function<void(double)>& on_progress = nullptr);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_PROFILER_H_
