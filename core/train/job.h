// One training job on this machine, or this process's part of it: what a model, its inputs and its
// optimizer have in common for profiling and for training by any plan.
#ifndef DPIPE_CORE_TRAIN_JOB_H_
#define DPIPE_CORE_TRAIN_JOB_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/nn/model.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/local_session.h"
#include "core/runtime/pass_graphs.h"
#include "core/tensor/device_worker.h"
#include "core/train/adamw_optimizer.h"
#include "core/train/compression/gradient_compression.h"

namespace dpipe {

// Models that take their own estimate as input get one in some steps, from a forward pass without
// gradient, and zeros in the others (Chen et al., arXiv 2208.04202).
struct SelfConditioningOptions {
  double probability = 0;  // of a step; ProfileJob tells planners, which then make two plans
  uint64_t seed = 0;
};

// Whether a step gets an estimate: one coin a step, the same whoever asks.
bool StepSelfConditions(const SelfConditioningOptions& options, int64_t step);

// Everything pointed to outlives what is made from the job.
struct TrainingJob {
  const nn::Model* model = nullptr;  // what is profiled, and planned for
  SizedSteps sizes;                  // of steps that run it at other sizes
  int64_t profiled_step = 0;         // one that runs `model`: its inputs are what is profiled with
  std::vector<DeviceWorker*> workers;  // one a device of this process
  ProcessGroup* processes = nullptr;   // that train together; null: this one alone
  InputProvider* inputs = nullptr;
  std::vector<const nn::ParameterSet*> frozen_parameters;  // by component; null for the backbone
  std::map<std::string, Tensor> backbone_parameters;       // to start from; empty once taken
  AdamWOptions optimizer;
  CompressionOptions compression;             // of plans that compress gradients
  SelfConditioningOptions self_conditioning;  // of models whose backbones take their own estimate
  DType compute_dtype = DType::kF32;
  PassGraphsOptions graphs;  // of its sessions, on devices that have them
  int frozen_quantum = 1;
  absl::Duration deadline = absl::Seconds(120);
  SessionClock* clock = MachineClock::Get();
  ConnectFn connect;                // see LocalSessionOptions
  ConnectJobRankFn connect_in_job;  // likewise
  int64_t first_step = 0;           // where a session begins: see LocalSession::Restore
  int max_skipped_in_a_row = 0;     // see LocalSessionOptions
  double slow_down = 0;             // likewise
};

// The local batches that plans of this global batch can have: its divisors, increasing.
std::vector<int> CandidateLocalBatches(int global_batch);

// How often each layer is timed where a plan is to be made of it.
inline constexpr int kProfilePasses = 15;

// Times the job's model on its workers, `passes` times, in rounds, at those local batches that the
// devices have memory for; see ProfileModel. GPUs then give back all that it took. Of several
// processes all call it, and get what the slowest of them has measured; `so_far` (ProfilerOptions)
// gets their own.
absl::StatusOr<ModelProfile> ProfileJob(
    const TrainingJob& job, const std::vector<int>& local_batches,
    const std::function<void(double)>& on_progress = nullptr, int passes = kProfilePasses,
    const std::function<void(const ModelProfile&)>& so_far = nullptr);

// What ProfileJob's profile has besides times: what the job is, in the planners' words.
ModelProfile DescribeJob(const TrainingJob& job);

// Gives the memory that profiling and finished sessions have left with the workers back to the
// operating system. Not while a session runs.
void ReleaseCachedMemory(const std::vector<DeviceWorker*>& workers);

// The job's workers as a cluster: what a message between the first and the last of them costs, and
// an all-reduce over all of them, measured as its sessions send; and, of GPUs, what memory each has
// for tensors (core/tensor/cuda/usable_memory.h). Of several processes all call it, and get what
// the first has measured. All devices are described as of one node, wherever the
// processes run.
absl::StatusOr<ClusterSpec> MeasureCluster(const TrainingJob& job);

namespace internal {
struct TimedReduce {
  int64_t size_bytes;
  Nanos time_ns;
};
// Bytes a second of a link in a ring of n devices, from all-reduces of two sizes: what both take
// alike, hops and the host, is not the link's. Where the larger one took no longer, at least what
// it shows by itself.
double RingBandwidth(int n, const TimedReduce& small, const TimedReduce& large);
}  // namespace internal

// A session that trains by `plan` from the job's initial parameters. Steps that
// StepSelfConditions() chooses run by `self_conditioned_plan`; where that is null, none do.
absl::StatusOr<std::unique_ptr<LocalSession>> StartSession(
    const TrainingJob& job, const Plan& plan, const Plan* self_conditioned_plan = nullptr);

// As StartSession, and empties job->backbone_parameters as soon as the session has its copies and
// before the optimizer makes its moments, so that a large model's parameters are in memory once.
// They are lost where it fails.
absl::StatusOr<std::unique_ptr<LocalSession>> StartSessionTakingParameters(
    TrainingJob* job, const Plan& plan, const Plan* self_conditioned_plan = nullptr);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_JOB_H_
