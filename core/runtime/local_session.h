// Trains by a plan. Every rank is a thread: of this process, or, where there is a job of several
// processes, of one of them. Then all create the session alike; process 0 uses it as if it were
// alone, and the others call Follow.
#ifndef DPIPE_CORE_RUNTIME_LOCAL_SESSION_H_
#define DPIPE_CORE_RUNTIME_LOCAL_SESSION_H_

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
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/pass_graphs.h"
#include "core/runtime/rank_executor.h"
#include "core/runtime/session_clock.h"
#include "core/runtime/session_message.pb.h"
#include "core/runtime/stage_routes.h"
#include "core/runtime/state_tensor.h"
#include "core/runtime/step_optimizer.h"
#include "core/tensor/device_worker.h"

namespace dpipe {

class SessionProcesses;
class StepSink;

// With self-conditioning some steps run the backbone twice, by a plan of their own.
struct SelfConditionedSteps {
  Plan plan;  // has passed VerifyPlan; its stages hold the same layers on the same ranks
  // Which steps these are: a function of the step alone, called by every rank.
  std::function<bool(int64_t step)> are;
};

// Steps may differ in size: by one plan and with one set of parameters, each runs the model whose
// values have its shapes.
struct SizedSteps {
  std::vector<const nn::Model*> others;  // alike the session's model (nn/alike.h); outlive it
  // Which model a step runs, 0 the session's and i others[i - 1]: a function of the step alone,
  // called by every rank. Empty: all run the session's.
  std::function<int(int64_t step)> model_of;
};

// Makes the communicators of ranks that drive these devices, in rank order. `deadline`: of any one
// wait.
using ConnectFn = std::function<absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline)>;

struct LocalSessionOptions {
  Plan plan;  // has passed VerifyPlan
  std::optional<SelfConditionedSteps> self_conditioned;
  const nn::Model* model = nullptr;  // outlives the session
  SizedSteps sizes;
  // One for each rank that this process drives, in rank order; outlive the session.
  std::vector<DeviceWorker*> workers;
  ProcessGroup* processes = nullptr;  // that drive the ranks; null: this one drives all
  // One a rank, in rank order, where this process drives all; none: made by `connect`, or in
  // process where that is null, too.
  std::vector<std::unique_ptr<Communicator>> communicators;
  ConnectFn connect;
  ConnectJobRankFn connect_in_job;  // of ranks that several processes drive; null: Gloo
  InputProvider* inputs = nullptr;  // outlives the session
  std::vector<const nn::ParameterSet*> frozen_parameters;  // by component; outlive the session
  const std::map<std::string, Tensor>* initial_parameters = nullptr;  // of backbones, by name
  // Called once every rank has copied what it needs of them, before optimizers are made: from then
  // on they may be dropped. May be empty.
  std::function<void()> on_parameters_copied;
  StepOptimizerFactory optimizer;
  GradientReducerFactory reducer;  // of plans with a compression, for each rank
  DType compute_dtype = DType::kF32;
  PassGraphsOptions graphs;  // on devices that have them
  int64_t first_step = 0;
  // A step whose losses or gradients' norm are not finite changes nothing: parameters, moments and
  // averages stay as they are on every rank. More than so many of them one after another end the
  // run; 0: the first does. Noticed where the plan computes the global norm.
  int max_skipped_in_a_row = 0;
  // Each rank waits after each step for this share of what it has taken: a slowdown of a known
  // size, to test what finds slowdowns.
  double slow_down = 0;
  absl::Duration deadline = absl::Seconds(120);  // of any one wait between ranks
  SessionClock* clock = MachineClock::Get();     // outlives the session
};

struct StepResult {
  int64_t step = 0;
  // Mean over the global batch, added in sample order; of several backbones, the sum.
  double loss = 0;
  std::vector<double> backbone_losses;            // each one's
  std::vector<std::vector<float>> sample_losses;  // by backbone and sample of the global batch
  double grad_norm = -1;  // over all stages; negative where the plan does not compute it
  bool applied = true;    // else the step was skipped: see max_skipped_in_a_row
  Nanos duration_ns =
      0;  // from the end of the step before (or the start of the run) to its own end
};

struct RunResult {
  std::vector<StepResult> steps;
  Trace trace;  // empty where it was not asked for; its steps count from the first of the run
  std::vector<int64_t> peak_memory_bytes;  // by rank: most bytes in tensors at a time
};

// Everything that a run must remember between two steps but for what it draws: see StateTensor.
struct SessionState {
  // By kind, then parameter, then place; of replicas and copies one is given, so that the parts of
  // a tensor follow each other and make up the whole. Those of this process's ranks share storage
  // with the session; others' lie in the host's memory.
  std::vector<StateTensor> tensors;
  int64_t next_step = 0;
  int64_t num_updates = 0;
};

class LocalSession {
 public:
  // InvalidArgument where plans, models and workers do not match, naming both sides.
  static absl::StatusOr<std::unique_ptr<LocalSession>> Create(LocalSessionOptions options);
  // Lets the other processes' Follow return.
  ~LocalSession();

  // Does what process 0 does with its session, until it has none any more. The first error of any
  // process ends it, too. Of a job's processes but the first.
  absl::Status Follow();
  // Does the next thing that process 0 does with it: for who follows several sessions in turns.
  absl::Status FollowNext();

  // Trains the next `count` steps. `is_last`: no step comes after them, so nothing is prepared for
  // one. `on_step`, if set, is called for each step when it is over, in their order and before this
  // returns, on a thread of its own, while the next steps go on. The first error of any rank ends
  // all of them; the session cannot be used after it. A session of two plans records no trace,
  // which has a single plan: FailedPrecondition.
  absl::StatusOr<RunResult> Run(int count, bool is_last, bool record,
                                const std::function<void(const StepResult&)>& on_step = nullptr);

  const Plan& plan() const { return options_.plan; }
  int64_t next_step() const { return next_step_; }
  // Whether it, or the job that it is a part of, has ended with an error: then it has no state.
  bool failed() const;

  // Call these between runs. The state has trainable parameters only.
  absl::StatusOr<SessionState> State() const;
  // Goes on from a state: overwrites the weights and whatever the optimizers keep, on every rank.
  // The step to go on from is LocalSessionOptions::first_step. After an error the session is not to
  // be used.
  absl::Status Restore(int64_t num_updates, const StateReader& read);

  // Copies of the backbones' parameters, by name, in the host's memory.
  absl::StatusOr<std::map<std::string, Tensor>> CollectParameters() const;
  // Copies of the state's tensors of one kind, by name.
  absl::StatusOr<std::map<std::string, Tensor>> Collect(const std::string& kind) const;
  // The parameters of one of this process's ranks, by its number among them, which replicas and
  // chains in the other direction hold copies of.
  const std::vector<std::unique_ptr<nn::ParameterSet>>& parameters(int local) const {
    return ranks_[local]->parameters;
  }

 private:
  // Of a rank that this process drives.
  struct RankState {
    Rank rank;
    std::shared_ptr<Device> device;
    std::shared_ptr<Device> loader;  // where inputs come in; the device itself, or a twin of it
    std::shared_ptr<Device> ahead;   // a further twin, or null: see RankResources
    std::unique_ptr<Communicator> communicator;
    // One for all stages of the same layers, in the order of the first of them.
    std::vector<std::unique_ptr<nn::ParameterSet>> parameters;  // whole, or this rank's shards
    std::vector<std::unique_ptr<nn::ParameterSet>> on_demand;   // of sharded stages
    std::vector<std::unique_ptr<nn::ParameterSet>> frozen;      // this device's copies, if any
    std::unique_ptr<RankExecutor> executor;
    int skipped_in_a_row = 0;

    // Those that are there, each once.
    std::vector<Device*> devices() const;
    // Since RunRanks was called last: the sum of the devices' peaks.
    int64_t peak_bytes() const;
  };

  explicit LocalSession(LocalSessionOptions options);
  // Of a rank, by component and layers: the sets, and those on demand, null where not sharded.
  // Stages of the same layers share them: self-conditioning's two laps, the turn of two chains in
  // opposite directions, two plans.
  using ParametersByLayers =
      std::map<std::pair<int, LayerRange>, std::pair<nn::ParameterSet*, nn::ParameterSet*>>;
  // `communicators` may be empty.
  absl::Status SetUp(std::vector<std::unique_ptr<Communicator>> communicators);
  absl::Status Connect(std::vector<std::unique_ptr<Communicator>> given);
  absl::Status ConnectProcesses();
  // `local`, here and below, is the number of one of this process's ranks.
  absl::StatusOr<RankResources> SetUpParameters(int local);
  std::vector<const nn::ParameterSet*> FrozenParametersOf(RankState* state) const;
  absl::Status SetUpRank(int local, RankResources resources);
  absl::Status SetUpStages(int local, ParametersByLayers* by_layers, RankPlan* own);
  absl::Status RestoreRank(int local, int64_t num_updates, const StateReader& read);
  // On the rank's thread: asks process 0 for a part of the saved state, and gets it.
  absl::Status ReadFromLeader(int local, const StateTensor& state);
  // Runs this process's ranks.
  absl::Status RunRanks(int count, bool is_last, bool record, StepSink* steps);
  // What a trace whose first step is this one has of them.
  std::vector<TraceEvent> TakeEvents(int64_t first_step);
  absl::Status RunRank(int local, int count, bool is_last, bool record, StepSink* steps);
  // Ends the run, on every rank alike, after too many steps that were skipped.
  absl::Status CountSkipped(int local, int64_t step);

  // The parts that this process has, copies included.
  std::vector<StateTensor> OwnState(const std::string& kind) const;
  std::vector<StateTensor> OwnParameters() const;
  int64_t OwnUpdates() const;
  // The whole of what all processes have, as `command` says; `own` is this process's part of it.
  // Its error is every process's.
  absl::StatusOr<SessionState> Gather(const SessionCommand& command,
                                      std::vector<StateTensor> own) const;
  absl::StatusOr<SessionState> GatherParts(const SessionCommand& command,
                                           std::vector<StateTensor> own) const;
  absl::Status FollowRun(const SessionCommand::Run& run);
  absl::Status FollowGather(std::vector<StateTensor> own) const;
  absl::Status FollowRestore(int64_t num_updates);
  absl::Status ServeRestore(int process, const StateReader& read) const;
  absl::Status ReceiveRuns(std::vector<TraceEvent>* events, std::vector<int64_t>* peaks);

  int num_plans() const { return options_.self_conditioned.has_value() ? 2 : 1; }
  const Plan& plan(int i) const { return i == 0 ? options_.plan : options_.self_conditioned->plan; }
  // By which plan a step runs.
  int PlanOf(int64_t step) const {
    return options_.self_conditioned.has_value() && options_.self_conditioned->are(step) ? 1 : 0;
  }

  const LocalSessionOptions options_;
  std::vector<std::vector<StageRoutes>> routes_;   // by plan
  std::unique_ptr<SessionProcesses> processes_;    // null where this one drives all ranks
  std::vector<std::unique_ptr<RankState>> ranks_;  // of this process
  int64_t next_step_ = 0;
  bool prepared_next_ = false;     // the frozen work of next_step_ is done
  std::vector<bool> looks_ahead_;  // by plan: it has work of step_offset 1
  bool failed_ = false;
  bool ended_ = false;  // as the leader has said
  Nanos epoch_ns_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_LOCAL_SESSION_H_
