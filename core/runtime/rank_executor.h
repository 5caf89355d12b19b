// Interprets one rank's instruction list.
//
// The interpreter knows instructions, never strategies: GPipe, zero-bubble, data parallelism and
// bubble filling differ only in the lists that they hand over. Each rank runs on a thread of its
// own. Messages are posted when their instruction is reached and waited for by the first
// computation that needs them, and so are collectives on parameters and gradients, so that both
// overlap with compute: gathered parameters are waited for by the first pass over their layers,
// reductions by the optimizer step. Every computation is recorded without the waiting before it.
//
// A rank may hold several stages, of one chain or of several. Where two stages of a chain that
// follow each other lie on it, values are handed over without a message; what later stages of the
// rank read again (a U-Net's skip connection whose ends share a device) stays here: stage_routes.h
// says which values go where.
#ifndef DPIPE_CORE_RUNTIME_RANK_EXECUTOR_H_
#define DPIPE_CORE_RUNTIME_RANK_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/base/time.h"
#include "core/comm/communicator.h"
#include "core/nn/execution.h"
#include "core/nn/model.h"
#include "core/nn/parameters.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/runtime/frozen_store.h"
#include "core/runtime/gradient_reducer.h"
#include "core/runtime/input_prefetcher.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/pass_graphs.h"
#include "core/runtime/rehearsal.h"
#include "core/runtime/session_clock.h"
#include "core/runtime/stage_routes.h"
#include "core/runtime/step_optimizer.h"
#include "core/runtime/weight_versions.h"

namespace dpipe {

// A plan and what this rank holds of its stages; everything outlives the executor.
struct RankPlan {
  const Plan* plan = nullptr;
  const std::vector<StageRoutes>* routes = nullptr;  // of this plan and the model
  // By stage id; null for stages of other ranks. Stages of the same layers share one set. Of
  // sharded stages, the set on demand.
  std::vector<nn::ParameterSet*> stage_parameters;
  // By stage id; null for stages that are not sharded or of other ranks.
  std::vector<nn::ParameterSet*> stage_shards;
};

// What a rank works with; everything outlives the executor.
struct RankResources {
  // One, or several that steps choose from: with the same layers on every rank, and the same
  // parameter sets.
  std::vector<RankPlan> plans;
  // Their components are in the plans' order. One, or several for steps of different sizes, that
  // are alike (nn/alike.h) and share the parameter sets.
  std::vector<const nn::Model*> models;
  std::function<int(int64_t step)> model_of;  // which of them a step runs; empty: the first
  std::shared_ptr<Device> device;
  // Where inputs come in: the device itself, or a twin of it, so that copies from the host neither
  // wait for the device's work nor hold up the thread that enqueues it.
  std::shared_ptr<Device> loader;
  // Another twin, where they come in a step ahead (input_prefetcher.h); null: they do not, on
  // devices whose ranks' threads compute.
  std::shared_ptr<Device> ahead;
  Communicator* communicator = nullptr;
  RankClock* clock = nullptr;
  InputProvider* inputs = nullptr;
  // By component; null for backbones and for components that this plan never computes.
  std::vector<const nn::ParameterSet*> frozen_parameters;
  StepOptimizerFactory optimizer;
  GradientReducerFactory reducer;  // null: sums are exact
  DType compute_dtype = DType::kF32;
  PassGraphsOptions graphs;  // on a device that has them
  Nanos epoch_ns = 0;        // trace times count from here
};

// What became of a step, as every rank knows it.
struct StepOutcome {
  double global_norm = -1;     // of the gradients; negative where the plan does not compute it
  int64_t num_bad_losses = 0;  // samples' losses that are not finite
  bool applied = true;         // else the optimizer was not called: the state is as before the step
};

struct StepLosses {
  int backbone = 0;  // number among the model's backbones
  SampleRange samples;
  std::vector<float> losses;  // one a sample
};

class RankExecutor {
 public:
  explicit RankExecutor(RankResources resources);

  // Which instructions of the list to run, by their step_offset.
  enum class Part { kPrologue, kWholeStep, kLastStep };

  // Runs the list of one of the plans for step `step`; the prologue of step k is run as step k - 1.
  // What one plan's list has prepared for the next step serves any other's. Errors name rank,
  // instruction and step.
  absl::Status RunStep(int64_t step, Part part, bool record, int plan = 0);

  // What has been recorded and computed since the last call. Events once the device has been
  // synchronised; losses are waited for.
  std::vector<TraceEvent> TakeEvents();
  std::vector<StepLosses> TakeLosses();
  // Of the last step.
  const StepOutcome& outcome() const { return outcome_; }

  // One for each of this rank's different parameter sets (of sharded stages: the shards), with it.
  using Optimizers = std::vector<std::pair<nn::ParameterSet*, std::unique_ptr<StepOptimizer>>>;
  const Optimizers& optimizers() const { return optimizers_; }

 private:
  using StageMicroBatch = std::pair<int, int>;  // also (lap, micro-batch)
  // What is known of an instruction before it runs.
  struct Prepared {
    std::string name;
    std::string awaited;                         // what others are waited for
    int64_t tag = 0;                             // of a message
    std::vector<std::vector<TensorSpec>> specs;  // of a RECV, by model
    std::vector<Rank> group;                     // of a collective
    std::vector<nn::ParameterId> parameters;
    std::vector<Tensor> tensors;  // gradients to sum; of sharded stages, this rank's shards
    std::vector<Tensor> rows;     // the same gradients in few long rows; not of sharded stages
  };
  struct Incoming {
    SampleRange samples;
    std::unique_ptr<PendingRecv> message;
  };
  // A collective from its start until it is waited for.
  struct Collective {
    int instruction = 0;
    int64_t step = 0;
    Nanos start_ns = 0;
    std::shared_ptr<DeviceEvent> start;  // as start_event_
    bool gathers = false;
    int component = 0;
    LayerRange layers;
    std::unique_ptr<PendingCollective> pending;
  };
  // What a forward pass has kept, until all passes back are done.
  struct KeptPass {
    nn::RangeState state;
    PassGraphs::Hold hold;
  };
  // A micro-batch on a stage, from its forward pass until its backward pass is done and sent.
  struct MicroBatch {
    SampleRange samples;
    std::vector<KeptPass> kept;  // of the forward passes that keep something, by layers
    nn::ValueMap inputs;         // of the stage, where it is computed again
    nn::ValueMap values;  // between forward passes over parts of the stage; then what is to be sent
    nn::ValueMap grads;   // of what is live at the last layer whose gradient is done
    int64_t weight_version = 0;  // that the forward pass has seen, in a relaxed plan
    int forward_end = 0;         // the first layer that has had no forward pass
    int activations_unsent = 0;  // samples
    int grads_unsent = 0;
    bool seeded = false;  // the backward pass has its first gradients
    bool input_grad_done = false;
    bool weight_grad_done = false;
  };
  // What a device that runs asynchronously has computed, or will have.
  struct DeviceLosses {
    int backbone = 0;
    SampleRange samples;
    Tensor losses;
  };
  // When such a device begins and ends what an event of the trace is about.
  struct DeviceTimes {
    size_t event = 0;
    std::shared_ptr<DeviceEvent> begin, end;
  };

  Prepared Prepare(const Instruction& instruction) const;
  // Before the first instruction: rehearses the passes where that matters, and tells the
  // communicator all messages of the lists.
  absl::Status Begin();
  absl::Status ExpectMessages();
  // Every pass of the lists, on every model.
  absl::Status RehearsePasses();
  void AddStagePasses(std::set<RehearsedPass>* passes) const;
  void AddFrozenPasses(std::set<RehearsedPass>* passes) const;
  // Gradients of a stage's layers are summed over all ranks that hold these layers with a gradient.
  std::vector<Rank> ReductionGroup(const Instruction& instruction) const;
  void PrepareCollective(const Instruction& instruction, Prepared* prepared) const;
  void PrepareNorm();
  absl::Status Run(const Instruction& instruction, int64_t step);
  // An input's samples, to be used on the device.
  absl::StatusOr<Tensor> LoadOntoDevice(const std::string& component, const std::string& input,
                                        int64_t step, SampleRange samples);
  absl::Status LoadBatch(const Instruction& instruction, int64_t step);
  absl::Status FrozenForward(const Instruction& instruction, int64_t step);
  absl::Status FrozenQuantum(const Instruction& instruction, int64_t step, SampleRange samples);
  absl::Status Forward(const Instruction& instruction, int64_t step);
  absl::Status Recompute(const Instruction& instruction, int64_t step);
  absl::Status BackwardPass(const Instruction& instruction);
  absl::Status Send(const Instruction& instruction, int64_t step);
  absl::Status PostRecv(const Instruction& instruction, int64_t step);
  absl::Status GatherParams(const Instruction& instruction, int64_t step);
  absl::Status ReleaseParams(const Instruction& instruction);
  absl::Status ReduceGrads(const Instruction& instruction, int64_t step);
  absl::Status OptimizerStep(const Instruction& instruction, int64_t step);
  absl::Status Update(int64_t step, bool ends_step);
  absl::Status CheckLosses(int64_t step);
  int64_t NumBadLosses() const;  // of this rank's, fetched ones
  absl::Status SyncParams(const Instruction& instruction);
  absl::Status CheckFinished() const;
  absl::Status SumNorm(int64_t step);
  absl::Status Flush(int64_t step);

  // External inputs of a layer range of a stage: frozen outputs from the store, the rest drawn.
  absl::Status GatherInputs(const StageRoutes& stage, LayerRange layers, int64_t step,
                            SampleRange samples, nn::ValueMap* values);
  absl::StatusOr<nn::ValueMap> TakeMessages(std::vector<Incoming> incoming, SampleRange samples,
                                            const std::vector<ValueId>& values);
  // What earlier stages have made for a stage's forward pass.
  absl::StatusOr<nn::ValueMap> TakeActivations(StageMicroBatch key, SampleRange samples);
  absl::Status ForwardLayers(StageMicroBatch key, LayerRange layers, int64_t step, bool keep_state,
                             MicroBatch* micro_batch);
  // Runs passes with the weights that they are to see, which are the stage's own where the plan is
  // not relaxed.
  absl::Status WithForwardWeights(StageMicroBatch key, int64_t step, const MicroBatch& micro_batch,
                                  const std::function<absl::Status()>& pass);
  absl::Status WithBackwardWeights(int stage, const MicroBatch& micro_batch,
                                   const std::function<absl::Status()>& pass);
  bool stashes() const {
    return plan().relaxation().weights() == Relaxation::STASHED;  // absent: unspecified
  }
  // `stage`: of whose parameters, -1: a frozen component's. `hold` as for PassGraphs.
  absl::Status RunPass(int stage, const PassCall& call, PassGraphs::Hold* hold);
  absl::Status FinishForward(StageMicroBatch key, MicroBatch* micro_batch);
  void Started(const Instruction& instruction, int64_t step,
               std::unique_ptr<PendingCollective> pending);
  // Waits for the first `count` of those under way, and records them.
  absl::Status AwaitCollectives(size_t count);
  // Waits for the parameters of a stage's layers, if they are divided over ranks.
  // FailedPrecondition where nothing has gathered them.
  absl::Status AwaitGathered(int stage, LayerRange layers);
  absl::Status SeedBackward(StageMicroBatch key, MicroBatch* micro_batch);
  absl::Status BackwardLayers(Instruction::Kind kind, LayerRange layers, int stage,
                              MicroBatch* micro_batch);
  void FinishInputGrad(StageMicroBatch key, MicroBatch* micro_batch);
  absl::Status ReceiveFrozen(int component, int64_t step, SampleRange samples);
  absl::StatusOr<std::vector<Tensor>> FrozenPayload(const Instruction& instruction, int64_t step);
  absl::StatusOr<std::vector<Tensor>> BoundaryPayload(const Instruction& instruction);
  std::vector<TensorSpec> PayloadSpecs(const Instruction& instruction,
                                       const nn::Model& model) const;
  void Retire(StageMicroBatch key);
  // Those of passes so far are in losses_ then; waits for the device.
  void FetchLosses();

  // Of the step that the current instruction works for.
  const nn::Model& model() const { return *resources_.models[current_model_]; }
  const nn::Component& component(int index) const { return model().component(index); }
  const RankPlan& now() const { return resources_.plans[current_plan_]; }
  const Plan& plan() const { return *now().plan; }
  Prepared& prepared_now() { return lists_[current_plan_].prepared[current_instruction_]; }
  const StageRoutes& routes(int stage) const { return (*now().routes)[stage]; }
  const nn::Program& program(int stage) const { return component(routes(stage).component).program; }
  // Where the computation of the current instruction began, after its waits.
  void MarkStart();
  // The current instruction, from its start until now.
  void Record(int64_t step, TraceEvent::Stream stream);
  void AddEvent(int instruction, int64_t step, TraceEvent::Stream stream, Nanos start_ns,
                Nanos end_ns);

  const RankResources resources_;
  const Rank rank_;
  std::unique_ptr<InputPrefetcher> prefetcher_;  // null: inputs are made when they are asked for
  // This rank's instructions of each plan.
  struct List {
    const DeviceProgram* program = nullptr;
    std::vector<Prepared> prepared;  // by instruction
  };
  std::vector<List> lists_;
  bool begun_ = false;
  int current_plan_ = 0;
  int current_model_ = 0;
  FrozenStore frozen_;
  std::unique_ptr<PassGraphs> graphs_;  // null: passes are not recorded
  std::map<StageMicroBatch, MicroBatch> micro_batches_;
  std::map<StageMicroBatch, std::vector<Incoming>> incoming_activations_, incoming_grads_;
  // Handed over between stages of this rank, by the stage that takes them.
  std::map<StageMicroBatch, nn::ValueMap> handed_activations_, handed_grads_;
  // Kept for later stages of this rank, by lap.
  std::map<StageMicroBatch, nn::ValueMap> kept_activations_, kept_grads_;
  std::map<std::pair<int64_t, int>, std::vector<Incoming>>
      incoming_frozen_;  // by (step, component)
  // Frozen chains under way: (step, component, first sample of the quantum).
  std::map<std::tuple<int64_t, int, int>, nn::ValueMap> frozen_values_;
  std::unique_ptr<GradientReducer> reducer_;  // null: sums are exact
  std::vector<Collective> collectives_;       // under way, in the order of starting
  Nanos collectives_end_ns_ = 0;              // of the last that was waited for
  Optimizers optimizers_;
  // Of a relaxed plan: by stage, null for those of other ranks, and the updates of this step.
  std::vector<std::unique_ptr<WeightVersions>> versions_;
  int updates_in_step_ = 0;
  // Gradients whose squares this rank adds to the global norm, and their slots among all of them.
  std::vector<Tensor> norm_grads_;
  std::vector<int> norm_slots_;
  int num_norm_slots_ = 0;

  std::vector<TraceEvent> events_;
  std::vector<DeviceTimes> device_times_;      // of events_, where the device runs asynchronously
  std::vector<DeviceTimes> collective_times_;  // likewise, in their order
  std::vector<StepLosses> losses_;
  std::vector<DeviceLosses> device_losses_;
  StepOutcome outcome_;
  int current_instruction_ = 0;
  bool record_ = false;
  Nanos start_ns_ = 0;
  std::shared_ptr<DeviceEvent> start_event_;  // where times are taken on the device
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_RANK_EXECUTOR_H_
