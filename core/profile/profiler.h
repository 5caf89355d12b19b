// Times a model's layers on this machine.
//
// All workers run the same measurements at the same time, because devices of one machine share
// caches, memory bandwidth and clock: a layer alone costs less than in a pipeline. Layers are timed
// in program order, pass by pass, so that each finds the caches as in training.
//
// Passes are taken in rounds. Each round times every component at every local batch. So if other
// programs slow the machine down for a few seconds, no single local batch looks more expensive than
// the next.
//
// If passes will be launched as recorded graphs, layers are timed as graphs too: the host's time to
// enqueue them then does not count. See typical_times.h for the computation of one time from the
// samples.
//
// Weights have arbitrary values, of a few tensors per shape (ParameterSet::StandIn): a profile
// reads no weights, and takes little memory at any size of the model.
//
// If the smaller local batches predict that a local batch does not fit in a device's memory, the
// backbone's list ends before it. The profile's provenance says so, with the reason.
#ifndef DPIPE_CORE_PROFILE_PROFILER_H_
#define DPIPE_CORE_PROFILE_PROFILER_H_

#include <cstdint>
#include <functional>
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
  int warmup_passes = 2;           // in the first round, which plans kernels; later: 1
  int passes = 15;                 // total of all rounds
  int passes_a_round = 3;          // minimum, if `passes` allows
  bool graphs = false;             // run layers as recorded graphs, if devices support them
  DType compute_dtype = DType::kF32;
  std::string device_name;
  // The memory available to tensors on each worker's device. 0, or an empty list: unknown.
  std::vector<int64_t> usable_bytes;
  // Receives the current profile whenever it has grown, as soon as it suffices for planning: after
  // each local batch of the first round, then after each round.
  std::function<void(const ModelProfile&)> so_far;
  // Called before each pass, by all workers' threads. Once it returns true, ProfileModel returns
  // Cancelled.
  std::function<bool()> should_stop;
};

// The profiler's inputs in addition to the model's programs. Functions are called on workers'
// threads.
struct ProfilerInputs {
  // Loads `samples` samples of an external input that no component produces. For the backbone, also
  // loads inputs that a frozen component produces, as from a cache (Unimplemented if there is
  // none).
  std::function<absl::StatusOr<Tensor>(const nn::Component& component, const std::string& input,
                                       int samples, const std::shared_ptr<Device>& device)>
      load;
  // A function that runs one whole optimizer step, including the norm, on a parameter set.
  using OptimizerStepFn = std::function<absl::Status(nn::ParameterSet*)>;
  std::function<OptimizerStepFn(const nn::ParameterSet&)> make_optimizer;
};

// Profiles the model. Errors name the component and layer. If set, `on_progress` receives the
// completed fraction in [0, 1].
absl::StatusOr<ModelProfile> ProfileModel(const nn::Model& model,
                                          const std::vector<DeviceWorker*>& workers,
                                          const ProfilerInputs& inputs,
                                          const ProfilerOptions& options,
                                          const std::function<void(double)>& on_progress = nullptr);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_PROFILER_H_
