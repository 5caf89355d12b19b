// Trains by a plan, with one thread per rank. If a job has several processes, each runs some of the
// ranks. Then all processes create the session in the same way; process 0 uses it as if it were
// alone, and the others call Follow.
#ifndef DPIPE_CORE_RUNTIME_SESSION_LOCAL_SESSION_H_
#define DPIPE_CORE_RUNTIME_SESSION_LOCAL_SESSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/job_rank.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/nn/model.h"
#include "core/nn/parameter_source.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/interpreter/pass_graphs.h"
#include "core/runtime/interpreter/rank_executor.h"
#include "core/runtime/session_clock.h"
#include "core/runtime/session_message.pb.h"
#include "core/runtime/stage_routes.h"
#include "core/runtime/state_tensor.h"
#include "core/runtime/step_optimizer.h"
#include "core/tensor/device_worker.h"

namespace dpipe {

class SessionProcesses;
class StepSink;

// Steps with self-conditioning, which run the backbone twice, by a plan of their own.
struct SelfConditionedSteps {
  Plan plan;  // has passed VerifyPlan; its stages hold the same layers on the same ranks
  // True for such steps. A function of the step alone, called by every rank.
  std::function<bool(int64_t step)> are;
};

// Steps of different sizes, with one plan and one set of parameters. Each step runs the model whose
// values have its shapes.
struct SizedSteps {
  std::vector<const nn::Model*> others;  // see nn/model.h; outlive the session
  // Returns the model that a step runs: 0 is the session's, i is others[i - 1]. A function of the
  // step alone, called by every rank. If empty, all steps run the session's model.
  std::function<int(int64_t step)> model_of;
};

// Creates the communicators of ranks that drive these devices, in rank order. `deadline` applies to
// any one wait.
using ConnectFn = std::function<absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline)>;

// Gives some layers of a frozen component their values, unless they have them. Called by several
// ranks at the same time.
using LoadFrozenFn = std::function<absl::Status(int component, LayerRange layers)>;

struct LocalSessionOptions {
  Plan plan;  // has passed VerifyPlan
  std::optional<SelfConditionedSteps> self_conditioned;
  const nn::Model* model = nullptr;  // outlives the session
  SizedSteps sizes;
  // One per rank that this process drives, in rank order; outlive the session.
  std::vector<DeviceWorker*> workers;
  ProcessGroup* processes = nullptr;  // processes that drive the ranks; null: this one drives all
  // One per rank, in rank order, if this process drives all ranks. If empty, `connect` creates them
  // or, if that is null, they are in-process communicators.
  std::vector<std::unique_ptr<Communicator>> communicators;
  ConnectFn connect;
  ConnectJobRankFn connect_in_job;  // for ranks driven by several processes; null: Gloo
  InputProvider* inputs = nullptr;  // outlives the session
  std::vector<const nn::ParameterSet*> frozen_parameters;  // by component; outlive the session
  // Called for the frozen layers that this process's ranks run. Null: all layers have values.
  LoadFrozenFn load_frozen;
  // Initial values of the backbones' parameters. Each rank reads those of its own stages.
  const nn::ParameterSource* initial_parameters = nullptr;
  // Called when every rank has copied the parameters that it needs, before optimizers are created:
  // afterwards the initial parameters may be dropped. May be empty.
  std::function<void()> on_parameters_copied;
  StepOptimizerFactory optimizer;
  GradientReducerFactory reducer;  // for plans with a compression; called per rank
  DType compute_dtype = DType::kF32;
  PassGraphsOptions graphs;  // on devices that support them
  int64_t first_step = 0;
  // A step whose losses or gradients' norm are not finite changes nothing: parameters, moments and
  // averages remain unchanged on every rank. More than this many such steps in a row end the run;
  // with 0, the first one does. Detected if the plan computes the global norm.
  int max_skipped_in_a_row = 0;
  // Each rank waits after each step for this share of the step's time: a slowdown of known size, to
  // test tools that find slowdowns.
  double slow_down = 0;
  absl::Duration deadline = absl::Seconds(120);  // of any one wait between ranks
  SessionClock* clock = MachineClock::Get();     // outlives the session
};

struct StepResult {
  int64_t step = 0;
  // Mean over the global batch, added in sample order; the sum of these for several backbones.
  double loss = 0;
  std::vector<double> backbone_losses;            // per backbone
  std::vector<std::vector<float>> sample_losses;  // by backbone and sample of the global batch
  double grad_norm = -1;  // over all stages; negative if the plan does not compute it
  bool applied = true;    // false if the step was skipped: see max_skipped_in_a_row
  // By rank: maximum bytes in tensors at a time, since Run was called.
  std::vector<int64_t> peak_memory_bytes;
  // From the end of the previous step (or the start of the run) to its own end.
  Nanos duration_ns = 0;
};

struct RunResult {
  std::vector<StepResult> steps;
  Trace trace;  // empty unless requested; counts steps from the first one of the run
  std::vector<int64_t> peak_memory_bytes;  // by rank: maximum bytes in tensors at a time
};

// All state of a run between two steps, except random draws: see StateTensor.
struct SessionState {
  // By kind, then parameter, then position. Replicas and copies appear once, so that the parts of a
  // tensor follow each other and make up the whole. Parts of this process's ranks share storage
  // with the session; those of others are in the host's memory.
  std::vector<StateTensor> tensors;
  int64_t next_step = 0;
  int64_t num_updates = 0;
};

class LocalSession {
 public:
  // Returns InvalidArgument, naming both sides, if plans, models and workers do not match.
  static absl::StatusOr<std::unique_ptr<LocalSession>> Create(LocalSessionOptions options);
  // Makes the other processes' Follow return.
  ~LocalSession();

  // Repeats the operations of process 0 on its session until that is destroyed. The first error of
  // any process ends it, too. For all processes of a job except the first.
  absl::Status Follow();
  // Repeats the next operation of process 0: for processes that follow several sessions in turns.
  absl::Status FollowNext();

  // Trains the next `count` steps. `is_last`: no step follows them, so nothing is prepared for one.
  // `on_step`, if set, is called for each finished step, in order and before this returns, on a
  // separate thread, while the next steps run. The first error of any rank ends all of them, and
  // the session cannot be used afterwards. Returns FailedPrecondition if `record` is set and the
  // session has two plans, since a trace has a single plan.
  absl::StatusOr<RunResult> Run(int count, bool is_last, bool record,
                                const std::function<void(const StepResult&)>& on_step = nullptr);

  const Plan& plan() const { return options_.plan; }
  int64_t next_step() const { return next_step_; }
  // True if the session, or its job, has ended with an error. Then it has no state.
  bool failed() const;

  // Returns the state, which has trainable parameters only. Call this and the following methods
  // between runs.
  absl::StatusOr<SessionState> State() const;
  // Continues from a state: overwrites the weights and the optimizers' state on every rank. The
  // step to continue from is LocalSessionOptions::first_step. The session cannot be used after an
  // error.
  absl::Status Restore(int64_t num_updates, const StateReader& read);

  // Returns copies of the backbones' parameters, by name, in the host's memory.
  absl::StatusOr<std::map<std::string, Tensor>> CollectParameters() const;
  // Returns copies of the state's tensors of one kind, by name.
  absl::StatusOr<std::map<std::string, Tensor>> Collect(const std::string& kind) const;
  // The same of one parameter, so that callers can save a model without holding all of it.
  absl::StatusOr<Tensor> CollectOne(const std::string& kind, const std::string& parameter) const;
  // Returns the parameters of one of this process's ranks, by its number among them. Replicas and
  // chains in the other direction hold copies of them.
  const std::vector<std::unique_ptr<nn::ParameterSet>>& parameters(int local) const {
    return ranks_[local]->parameters;
  }

 private:
  // State of a rank that this process drives.
  struct RankState {
    Rank rank;
    std::shared_ptr<Device> device;
    std::shared_ptr<Device> loader;  // for loading inputs; the device itself, or a twin of it
    std::shared_ptr<Device> ahead;   // another twin, or null: see RankResources
    std::unique_ptr<Communicator> communicator;
    // One per set of layers, shared by all stages with these layers, in the order of the first of
    // them.
    std::vector<std::unique_ptr<nn::ParameterSet>> parameters;  // whole, or this rank's shards
    std::vector<std::unique_ptr<nn::ParameterSet>> on_demand;   // for sharded stages
    std::vector<std::unique_ptr<nn::ParameterSet>> frozen;      // this device's copies, if any
    std::unique_ptr<RankExecutor> executor;
    int skipped_in_a_row = 0;

    // Returns the distinct devices.
    std::vector<Device*> devices() const;
    // Returns the sum of the devices' peaks since the last call of RunRanks.
    int64_t peak_bytes() const;
  };

  explicit LocalSession(LocalSessionOptions options);
  // A rank's parameter sets by component and layers. The second set is the one on demand, null if
  // the layers are not sharded. Stages with the same layers share them: self-conditioning's two
  // laps, the turning point of two chains in opposite directions, two plans.
  using ParametersByLayers =
      std::map<std::pair<int, LayerRange>, std::pair<nn::ParameterSet*, nn::ParameterSet*>>;
  // `communicators` may be empty.
  absl::Status SetUp(std::vector<std::unique_ptr<Communicator>> communicators);
  absl::Status Connect(std::vector<std::unique_ptr<Communicator>> given);
  absl::Status ConnectProcesses();
  // `local`, here and below, is a rank's number within this process.
  absl::StatusOr<RankResources> SetUpParameters(int local);
  // By component: the frozen layers that a rank runs, in ranges that may overlap.
  using FrozenLayers = std::vector<std::vector<LayerRange>>;
  FrozenLayers FrozenLayersOf(int rank) const;
  // Reads the frozen layers that a rank runs.
  absl::Status LoadFrozenOf(int rank) const;
  std::vector<const nn::ParameterSet*> FrozenParametersOf(RankState* state) const;
  absl::Status SetUpRank(int local, RankResources resources);
  absl::Status SetUpStages(int local, ParametersByLayers* by_layers, RankPlan* own);
  absl::Status RestoreRank(int local, int64_t num_updates, const StateReader& read);
  // Runs on the rank's thread: requests a part of the saved state from process 0 and receives it.
  absl::Status ReadFromLeader(int local, const StateTensor& state);
  // Runs this process's ranks.
  absl::Status RunRanks(int count, bool is_last, bool record, StepSink* steps);
  // Returns their trace events, in a trace whose first step is `first_step`, memory and peaks.
  ProcessRun TakeReport(int64_t first_step);
  absl::Status RunRank(int local, int count, bool is_last, bool record, StepSink* steps);
  // Ends the run, on every rank in the same way, after too many skipped steps.
  absl::Status CountSkipped(int local, int64_t step);

  // Returns the parts that this process has, including copies.
  std::vector<StateTensor> OwnState(const SessionCommand::State& wanted) const;
  std::vector<StateTensor> OwnParameters() const;
  int64_t OwnUpdates() const;
  // Gathers the parts that all processes have, as `command` says; `own` has this process's. An
  // error ends all processes.
  absl::StatusOr<SessionState> Gather(const SessionCommand& command,
                                      std::vector<StateTensor> own) const;
  absl::StatusOr<SessionState> GatherParts(const SessionCommand& command,
                                           std::vector<StateTensor> own) const;
  absl::Status FollowRun(const SessionCommand::Run& run);
  absl::Status FollowGather(std::vector<StateTensor> own) const;
  absl::Status FollowRestore(int64_t num_updates);
  absl::Status ServeRestore(int process, const StateReader& read) const;
  absl::Status ReceiveRuns(ProcessRun* report);  // adds those of the other processes

  int num_plans() const { return options_.self_conditioned.has_value() ? 2 : 1; }
  const Plan& plan(int i) const { return i == 0 ? options_.plan : options_.self_conditioned->plan; }
  // Returns the plan that a step runs.
  int PlanOf(int64_t step) const {
    return options_.self_conditioned.has_value() && options_.self_conditioned->are(step) ? 1 : 0;
  }

  const LocalSessionOptions options_;
  std::vector<std::vector<StageRoutes>> routes_;   // by plan
  std::unique_ptr<SessionProcesses> processes_;    // null if this process drives all ranks
  std::vector<std::unique_ptr<RankState>> ranks_;  // of this process
  int64_t next_step_ = 0;
  bool prepared_next_ = false;     // the frozen work of next_step_ is done
  std::vector<bool> looks_ahead_;  // by plan: it has work of step_offset 1
  bool failed_ = false;
  bool ended_ = false;  // as told by the leader
  Nanos epoch_ns_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_SESSION_LOCAL_SESSION_H_
