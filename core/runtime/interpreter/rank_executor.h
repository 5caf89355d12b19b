// Interprets one rank's instruction list.
//
// The interpreter knows instructions, never strategies: GPipe, zero-bubble, data parallelism and
// bubble filling differ only in the lists that they provide. Each rank runs on its own thread.
// Messages, and collectives on parameters and gradients, are posted when their instruction is
// reached and waited for by the first computation that needs them, so that they overlap with
// compute. The first pass over their layers waits for gathered parameters; the optimizer step waits
// for reductions. The recorded time of a computation excludes the wait before it.
//
// A rank may hold several stages, of one chain or of several. Between two consecutive stages of a
// chain on the same rank, values are handed over without a message. Values that later stages of the
// rank read again (a U-Net's skip connection whose ends share a device) stay here. stage_routes.h
// says which values go where.
#ifndef DPIPE_CORE_RUNTIME_INTERPRETER_RANK_EXECUTOR_H_
#define DPIPE_CORE_RUNTIME_INTERPRETER_RANK_EXECUTOR_H_

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
#include "core/runtime/gradient_reducer.h"
#include "core/runtime/input_provider.h"
#include "core/runtime/interpreter/frozen_store.h"
#include "core/runtime/interpreter/input_prefetcher.h"
#include "core/runtime/interpreter/pass_graphs.h"
#include "core/runtime/interpreter/warm_up.h"
#include "core/runtime/interpreter/weight_versions.h"
#include "core/runtime/session_clock.h"
#include "core/runtime/stage_routes.h"
#include "core/runtime/step_optimizer.h"

namespace dpipe {

// A plan and this rank's parameters of its stages; all pointees outlive the executor.
struct RankPlan {
  const Plan* plan = nullptr;
  const std::vector<StageRoutes>* routes = nullptr;  // of this plan and the model
  // By stage id; null for stages of other ranks. Stages with the same layers share one set. A
  // sharded stage has its set on demand here.
  std::vector<nn::ParameterSet*> stage_parameters;
  // By stage id; null for stages of other ranks and for stages that are not sharded.
  std::vector<nn::ParameterSet*> stage_shards;
};

// A rank's resources; all pointees outlive the executor.
struct RankResources {
  // One plan, or several that steps choose from, with the same layers and parameter sets on every
  // rank.
  std::vector<RankPlan> plans;
  // Models whose components are in the plans' order. One, or several for steps of different sizes;
  // these are alike (nn/model.h) and share the parameter sets.
  std::vector<const nn::Model*> models;
  // Returns the model that a step runs; empty: the first.
  std::function<int(int64_t step)> model_of;
  std::shared_ptr<Device> device;
  // For loading inputs: the device itself, or a twin of it, so that copies from the host neither
  // wait for the device's work nor block the thread that enqueues it.
  std::shared_ptr<Device> loader;
  // Another twin, for loading inputs a step ahead (input_prefetcher.h). Null on devices whose
  // ranks' threads compute.
  std::shared_ptr<Device> ahead;
  Communicator* communicator = nullptr;
  RankClock* clock = nullptr;
  InputProvider* inputs = nullptr;
  // By component; null for backbones and for components that this plan never computes.
  std::vector<const nn::ParameterSet*> frozen_parameters;
  StepOptimizerFactory optimizer;
  GradientReducerFactory reducer;  // null: sums are exact
  DType compute_dtype = DType::kF32;
  PassGraphsOptions graphs;  // on a device that supports them
  Nanos epoch_ns = 0;        // trace times count from here
};

// Outcome of a step, known to every rank.
struct StepOutcome {
  double global_norm = -1;     // of the gradients; negative if the plan does not compute it
  int64_t num_bad_losses = 0;  // number of samples whose loss is not finite
  bool applied = true;         // false: the optimizer was not called and the state is unchanged
};

struct StepLosses {
  int backbone = 0;  // number among the model's backbones
  SampleRange samples;
  std::vector<float> losses;  // one per sample
};

class RankExecutor {
 public:
  explicit RankExecutor(RankResources resources);

  // The part of the list to run, selected by step_offset.
  enum class Part { kPrologue, kWholeStep, kLastStep };

  // Runs the list of one of the plans for step `step`; the prologue of step k is run as step k - 1.
  // The next step may use a different plan than the one that prepared it. Errors name rank,
  // instruction and step.
  absl::Status RunStep(int64_t step, Part part, bool record, int plan = 0);

  // Return the events and losses since the last call. Synchronize the device before TakeEvents;
  // TakeLosses waits for the losses.
  std::vector<TraceEvent> TakeEvents();
  std::vector<StepLosses> TakeLosses();
  // Returns the bytes in this rank's tensors at the end of each event of the last TakeEvents, in
  // the order of execution; only changes. Memory that an instruction uses only meanwhile is not in
  // them.
  std::vector<MemorySample> TakeMemory() { return std::exchange(memory_, {}); }
  // Returns the outcome of the last step.
  const StepOutcome& outcome() const { return outcome_; }

  // One per distinct parameter set of this rank (for sharded stages, the shards), together with the
  // set.
  using Optimizers = std::vector<std::pair<nn::ParameterSet*, std::unique_ptr<StepOptimizer>>>;
  const Optimizers& optimizers() const { return optimizers_; }

 private:
  using StageMicroBatch = std::pair<int, int>;  // also (lap, micro-batch)
  // Properties of an instruction that are known before it runs.
  struct Prepared {
    std::string name;
    std::string awaited;                         // name of what others are waited for
    int64_t tag = 0;                             // of a message
    std::vector<std::vector<TensorSpec>> specs;  // of a RECV, by model
    std::vector<Rank> group;                     // of a collective
    std::vector<nn::ParameterId> parameters;
    std::vector<Tensor> tensors;  // gradients to sum; for sharded stages, this rank's shards
    std::vector<Tensor> rows;     // the same gradients in few long rows; empty for sharded stages
  };
  struct Incoming {
    int instruction = 0;  // the RECV
    int64_t step = 0;     // in which it was posted
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
  // State kept by a forward pass until all backward passes are done.
  struct KeptPass {
    nn::RangeState state;
    PassGraphs::Hold hold;
  };
  // A micro-batch on a stage, from its forward pass until its backward pass is done and sent.
  struct MicroBatch {
    SampleRange samples;
    std::vector<KeptPass> kept;  // of the forward passes that keep a state, by layers
    nn::ValueMap block_inputs;   // of the stage's blocks that are still to be recomputed
    nn::ValueMap recomputed;     // between recomputations of parts of a block
    nn::ValueMap values;  // between forward passes over parts of the stage; then values to be sent
    nn::ValueMap grads;   // of the values that are live at the last layer whose gradient is done
    int64_t weight_version = 0;  // used by the forward pass, in a relaxed plan
    int forward_end = 0;         // the first layer without a forward pass
    int activations_unsent = 0;  // samples
    int grads_unsent = 0;
    bool seeded = false;  // the backward pass has its first gradients
    bool input_grad_done = false;
    bool weight_grad_done = false;
  };
  // Losses that a device which runs asynchronously has computed or will compute.
  struct DeviceLosses {
    int backbone = 0;
    SampleRange samples;
    Tensor losses;
  };
  // Start and end on such a device of the work that a trace event describes.
  struct DeviceTimes {
    size_t event = 0;
    std::shared_ptr<DeviceEvent> begin, end;
  };

  // The bytes in this rank's tensors at the end of an event.
  struct EventMemory {
    size_t event = 0;
    int64_t bytes = 0;
  };

  Prepared Prepare(const Instruction& instruction) const;
  // Runs before the first instruction. Warms up the passes if that matters, and announces all
  // messages of the lists to the communicator.
  absl::Status Begin();
  absl::Status ExpectMessages();
  // Runs every pass of the lists, on every model.
  absl::Status WarmUpPasses();
  void AddStagePasses(std::set<WarmUpPass>* passes) const;
  void AddFrozenPasses(std::set<WarmUpPass>* passes) const;
  // Returns all ranks that hold a stage's layers with a gradient; the gradients are summed over
  // them.
  std::vector<Rank> ReductionGroup(const Instruction& instruction) const;
  void PrepareCollective(const Instruction& instruction, Prepared* prepared) const;
  void PrepareNorm();
  absl::Status Run(const Instruction& instruction, int64_t step);
  // Returns an input's samples on the device.
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
  int64_t NumBadLosses() const;  // among this rank's fetched ones
  absl::Status SyncParams(const Instruction& instruction);
  absl::Status CheckFinished() const;
  absl::Status SumNorm(int64_t step);
  absl::Status Flush(int64_t step);

  // Adds the external inputs of a layer range of a stage: frozen outputs from the store, others
  // drawn.
  absl::Status GatherInputs(const StageRoutes& stage, LayerRange layers, int64_t step,
                            SampleRange samples, nn::ValueMap* values);
  // Waits for a message, and records the time.
  absl::StatusOr<std::vector<Tensor>> Await(const Incoming& incoming);
  absl::StatusOr<nn::ValueMap> TakeMessages(std::vector<Incoming> incoming, SampleRange samples,
                                            const std::vector<ValueId>& values);
  // Returns the values of earlier stages for a stage's forward pass.
  absl::StatusOr<nn::ValueMap> TakeActivations(StageMicroBatch key, SampleRange samples);
  absl::Status ForwardLayers(StageMicroBatch key, LayerRange layers, int64_t step, bool keep_state,
                             MicroBatch* micro_batch);
  // Run a pass with the weights that it must use, which are the stage's own unless the plan is
  // relaxed.
  absl::Status WithForwardWeights(StageMicroBatch key, int64_t step, const MicroBatch& micro_batch,
                                  const std::function<absl::Status()>& pass);
  absl::Status WithBackwardWeights(int stage, const MicroBatch& micro_batch,
                                   const std::function<absl::Status()>& pass);
  bool stashes() const {
    return plan().relaxation().weights() == Relaxation::STASHED;  // absent: unspecified
  }
  // Runs a pass. `stage` owns the parameters; -1 for a frozen component. `hold` as for PassGraphs.
  absl::Status RunPass(int stage, const PassCall& call, PassGraphs::Hold* hold);
  absl::Status FinishForward(StageMicroBatch key, MicroBatch* micro_batch);
  void Started(const Instruction& instruction, int64_t step,
               std::unique_ptr<PendingCollective> pending);
  // Waits for the first `count` collectives in flight, and records them.
  absl::Status AwaitCollectives(size_t count);
  // Waits for the parameters of a stage's layers if they are sharded. Returns FailedPrecondition if
  // no instruction has gathered them.
  absl::Status AwaitGathered(int stage, LayerRange layers);
  absl::Status SeedBackward(StageMicroBatch key, MicroBatch* micro_batch);
  absl::Status BackwardLayers(Instruction::Kind kind, LayerRange layers, int stage,
                              MicroBatch* micro_batch);
  void FinishInputGrad(StageMicroBatch key, MicroBatch* micro_batch);
  absl::Status ReceiveFrozen(int component, int64_t step, SampleRange samples);
  absl::StatusOr<std::vector<Tensor>> FrozenPayload(const Instruction& instruction, int64_t step);
  // Returns what a SEND of frozen values carries. The samples are then no longer on this rank.
  absl::StatusOr<std::vector<Tensor>> TakeFrozenValues(const Instruction& instruction,
                                                       int64_t step);
  absl::Status ReceiveFrozenValues(int component, int layer, int64_t step, SampleRange samples);
  absl::StatusOr<std::vector<Tensor>> BoundaryPayload(const Instruction& instruction);
  std::vector<TensorSpec> PayloadSpecs(const Instruction& instruction,
                                       const nn::Model& model) const;
  void Retire(StageMicroBatch key);
  // Moves the losses of all passes so far to losses_; waits for the device.
  void FetchLosses();

  // Returns the model of the step that the current instruction works for.
  const nn::Model& model() const { return *resources_.models[current_model_]; }
  const nn::Component& component(int index) const { return model().component(index); }
  const RankPlan& now() const { return resources_.plans[current_plan_]; }
  const Plan& plan() const { return *now().plan; }
  Prepared& prepared_now() { return lists_[current_plan_].prepared[current_instruction_]; }
  const StageRoutes& routes(int stage) const { return (*now().routes)[stage]; }
  const nn::Program& program(int stage) const { return component(routes(stage).component).program; }
  // Marks the start of the current instruction's computation, after its waits.
  void MarkStart();
  // Records the current instruction, from its start until now.
  void Record(int64_t step, TraceEvent::Stream stream);
  void AddEvent(int instruction, int64_t step, TraceEvent::Stream stream, Nanos start_ns,
                Nanos end_ns);
  // Returns an event of now if times are taken on the device, otherwise null.
  std::shared_ptr<DeviceEvent> DeviceNow() const;
  // Samples the memory at the end of the latest event.
  void RecordMemory();

  const RankResources resources_;
  const Rank rank_;
  std::unique_ptr<InputPrefetcher> prefetcher_;  // null: inputs are created when they are requested
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
  // Handed over between stages of this rank; the key is the receiving stage.
  std::map<StageMicroBatch, nn::ValueMap> handed_activations_, handed_grads_;
  // Kept for later stages of this rank, by lap.
  std::map<StageMicroBatch, nn::ValueMap> kept_activations_, kept_grads_;
  // By (step, component).
  std::map<std::pair<int64_t, int>, std::vector<Incoming>> incoming_frozen_;
  // By (step, component, next layer).
  std::map<std::tuple<int64_t, int, int>, std::vector<Incoming>> incoming_values_;
  // Frozen chains in progress: (step, component, first sample of the quantum).
  std::map<std::tuple<int64_t, int, int>, nn::ValueMap> frozen_values_;
  std::unique_ptr<GradientReducer> reducer_;  // null: sums are exact
  std::vector<Collective> collectives_;       // in flight, in the order of starting
  Nanos collectives_end_ns_ = 0;              // of the last one waited for
  Optimizers optimizers_;
  // For a relaxed plan: by stage, null for those of other ranks; and the number of updates in this
  // step.
  std::vector<std::unique_ptr<WeightVersions>> versions_;
  int updates_in_step_ = 0;
  // Gradients whose squares this rank adds to the global norm, and their slots.
  std::vector<Tensor> norm_grads_;
  std::vector<int> norm_slots_;
  int num_norm_slots_ = 0;

  std::vector<TraceEvent> events_;
  std::vector<EventMemory> event_memory_;  // of events_
  std::vector<MemorySample> memory_;
  std::vector<DeviceTimes> device_times_;      // of events_, if the device runs asynchronously
  std::vector<DeviceTimes> collective_times_;  // the same for collectives, in order
  std::vector<StepLosses> losses_;
  std::vector<DeviceLosses> device_losses_;
  StepOutcome outcome_;
  int current_instruction_ = 0;
  bool record_ = false;
  Nanos start_ns_ = 0;
  std::shared_ptr<DeviceEvent> start_event_;  // if times are taken on the device
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_INTERPRETER_RANK_EXECUTOR_H_
