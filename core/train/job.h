// One training job on this machine, or this process's part of it: the model, inputs and optimizer
// shared by profiling and by training with any plan.
#ifndef DPIPE_CORE_TRAIN_JOB_H_
#define DPIPE_CORE_TRAIN_JOB_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/nn/model.h"
#include "core/nn/parameter_source.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/interpreter/pass_graphs.h"
#include "core/runtime/session/local_session.h"
#include "core/tensor/device_worker.h"
#include "core/train/compression/gradient_compression.h"
#include "core/train/optimizer/adamw_optimizer.h"

namespace dpipe {

// Models that take their own estimate as input get one in some steps, from a forward pass without
// gradient, and zeros in the others (Chen et al., arXiv 2208.04202).
struct SelfConditioningOptions {
  double probability = 0;  // per step; ProfileJob passes it to planners, which then make two plans
  uint64_t seed = 0;
};

// True if a step gets an estimate: one random draw per step, the same for every caller.
bool StepSelfConditions(const SelfConditioningOptions& options, int64_t step);

// All pointees outlive the objects made from the job.
struct TrainingJob {
  const nn::Model* model = nullptr;  // profiled and planned for
  SizedSteps sizes;                  // for steps that run it at other sizes
  int64_t profiled_step = 0;  // a step that runs `model`, whose inputs are used for profiling
  std::vector<DeviceWorker*> workers;  // one per device of this process
  ProcessGroup* processes = nullptr;   // processes that train together; null: this one alone
  InputProvider* inputs = nullptr;
  std::vector<const nn::ParameterSet*> frozen_parameters;  // by component; null for the backbone
  LoadFrozenFn load_frozen;                                // see LocalSessionOptions
  nn::ParameterSourcePtr backbone_parameters;              // initial values; null once taken
  AdamWOptions optimizer;
  CompressionOptions compression;             // for plans that compress gradients
  SelfConditioningOptions self_conditioning;  // for models whose backbones take their own estimate
  DType compute_dtype = DType::kF32;
  PassGraphsOptions graphs;  // for its sessions, on devices that support them
  int frozen_quantum = 1;
  absl::Duration deadline = absl::Seconds(120);
  SessionClock* clock = MachineClock::Get();
  ConnectFn connect;                // see LocalSessionOptions
  ConnectJobRankFn connect_in_job;  // see LocalSessionOptions
  int64_t first_step = 0;           // first step of a session: see LocalSession::Restore
  int max_skipped_in_a_row = 0;     // see LocalSessionOptions
  double slow_down = 0;             // see LocalSessionOptions
  // Called repeatedly, by several threads, while the job is profiled. Once it returns true,
  // ProfileJob returns Cancelled. Only for a job of one process: others wait for each other.
  std::function<bool()> should_stop;
};

// Returns the possible local batches of plans with this global batch: its divisors, increasing.
std::vector<int> CandidateLocalBatches(int global_batch);

// How often each layer is timed when a plan will be made from the profile.
inline constexpr int kProfilePasses = 15;

// Times the job's model on its workers, `passes` times, in rounds, at those of the local batches
// that fit into the devices' memory; see ProfileModel. GPUs then release all memory used for it. If
// there are several processes, all call this and get the measurements of the slowest one; `so_far`
// (ProfilerOptions) gets each process's own.
absl::StatusOr<ModelProfile> ProfileJob(
    const TrainingJob& job, const std::vector<int>& local_batches,
    const std::function<void(double)>& on_progress = nullptr, int passes = kProfilePasses,
    const std::function<void(const ModelProfile&)>& so_far = nullptr);

// Returns the parts of ProfileJob's profile other than times: a description of the job for
// planners.
ModelProfile DescribeJob(const TrainingJob& job);

// Releases memory cached by profiling and finished sessions to the operating system. Do not call it
// while a session runs.
void ReleaseCachedMemory(const std::vector<DeviceWorker*>& workers);

// Measures the job's workers as a cluster, with the transports of its sessions: the cost of a
// message between the first and the last rank of a host, and of an all-reduce over its ranks; the
// same between hosts, one rank of each. For GPUs, also the memory that each has for tensors
// (core/tensor/cuda/cuda_device.h). Hosts are nodes if all have equally many processes, numbered
// host by host; if not, everything is one node with the link between the first and the last rank.
// If there are several processes, all call this and get the measurements of the first one.
absl::StatusOr<ClusterSpec> MeasureCluster(const TrainingJob& job);

namespace internal {
struct TimedReduce {
  int64_t size_bytes;
  Nanos time_ns;
};
// Returns the bandwidth in bytes per second of a link in a ring of n devices, from all-reduces of
// two sizes. Time that both have in common (hops, the host) is excluded. If the larger one took no
// longer, returns the lower bound that it implies by itself.
double RingBandwidth(int n, const TimedReduce& small, const TimedReduce& large);
}  // namespace internal

// Starts a session that trains by `plan` from the job's initial parameters. Steps chosen by
// StepSelfConditions() run by `self_conditioned_plan`; if that is null, there are none.
absl::StatusOr<std::unique_ptr<LocalSession>> StartSession(
    const TrainingJob& job, const Plan& plan, const Plan* self_conditioned_plan = nullptr);

// Like StartSession, but drops job->backbone_parameters when the session has copied them and before
// the optimizer creates its moments, so that parameters whose source is in memory are there only
// once. They are lost if it fails.
absl::StatusOr<std::unique_ptr<LocalSession>> StartSessionTakingParameters(
    TrainingJob* job, const Plan& plan, const Plan* self_conditioned_plan = nullptr);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_JOB_H_
