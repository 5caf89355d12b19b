// Interprets one rank's instruction list.
//
// The interpreter knows instructions, never strategies: GPipe, 1F1B, data parallelism and bubble
// filling differ only in the lists that they hand over. Each rank runs on a thread of its own.
// Messages are posted when their instruction is reached and waited for by the first computation
// that needs them, so that transfers overlap with compute. Every computation is recorded without
// the waiting before it.
#ifndef DPIPE_CORE_RUNTIME_RANK_EXECUTOR_H_
#define DPIPE_CORE_RUNTIME_RANK_EXECUTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
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
#include "core/runtime/input_provider.h"
#include "core/runtime/step_optimizer.h"

namespace dpipe {

// What a rank works with; everything outlives the executor.
struct RankResources {
  const Plan* plan = nullptr;
  const nn::Model* model = nullptr;  // its components are in the plan's order
  std::shared_ptr<Device> device;
  Communicator* communicator = nullptr;
  InputProvider* inputs = nullptr;
  // By component; null for the backbone and for components that this plan never computes.
  std::vector<const nn::ParameterSet*> frozen_parameters;
  // By stage id; null for stages of other ranks.
  std::vector<nn::ParameterSet*> stage_parameters;
  StepOptimizerFactory optimizer;
  DType compute_dtype = DType::kF32;
  Nanos epoch_ns = 0;  // trace times count from here
};

struct StepLosses {
  SampleRange samples;
  std::vector<float> losses;  // one a sample
};

class RankExecutor {
 public:
  explicit RankExecutor(RankResources resources);

  // Which instructions of the list to run, by their step_offset.
  enum class Part { kPrologue, kWholeStep, kLastStep };

  // Runs the list for step `step`; the prologue of step k is run as step k - 1. Errors name rank,
  // instruction and step.
  absl::Status RunStep(int64_t step, Part part, bool record);

  // What has been recorded and computed since the last call.
  std::vector<TraceEvent> TakeEvents();
  std::vector<StepLosses> TakeLosses();

 private:
  using StageMicroBatch = std::pair<int, int>;
  struct Incoming {
    SampleRange samples;
    std::unique_ptr<PendingRecv> message;
  };
  // A micro-batch on a stage, from its forward pass until its backward pass is done and sent.
  struct MicroBatch {
    SampleRange samples;
    nn::RangeState state;
    nn::ValueMap activations;    // live after the stage, to be sent
    nn::ValueMap grads;          // of what is live at the last layer whose gradient is done
    int activations_unsent = 0;  // samples
    int grads_unsent = 0;
    bool seeded = false;  // the backward pass has its first gradients
    bool input_grad_done = false;
    bool weight_grad_done = false;
  };

  absl::Status Run(const Instruction& instruction, int64_t step);
  absl::Status LoadBatch(const Instruction& instruction, int64_t step);
  absl::Status FrozenForward(const Instruction& instruction, int64_t step);
  absl::Status FrozenQuantum(const Instruction& instruction, int64_t step, SampleRange samples);
  absl::Status Forward(const Instruction& instruction, int64_t step);
  absl::Status BackwardPass(const Instruction& instruction, int64_t step);
  absl::Status Send(const Instruction& instruction, int64_t step);
  absl::Status PostRecv(const Instruction& instruction, int64_t step);
  absl::Status ReduceGrads(const Instruction& instruction);
  absl::Status OptimizerStep(int64_t step);
  absl::Status Flush(int64_t step);

  // The backbone's external inputs for a layer range: frozen outputs from the store, the rest
  // drawn.
  absl::Status GatherInputs(LayerRange layers, int64_t step, SampleRange samples,
                            nn::ValueMap* values);
  absl::StatusOr<nn::ValueMap> TakeMessages(std::vector<Incoming> incoming,
                                            const std::vector<ValueId>& values);
  absl::Status SeedBackward(const Instruction& instruction, MicroBatch* micro_batch);
  absl::Status ReceiveFrozen(int component, int64_t step, SampleRange samples);
  absl::StatusOr<std::vector<Tensor>> FrozenPayload(const Instruction& instruction, int64_t step);
  absl::StatusOr<std::vector<Tensor>> BoundaryPayload(const Instruction& instruction);
  std::vector<TensorSpec> PayloadSpecs(const Instruction& instruction) const;
  void Retire(StageMicroBatch key);
  void RecordLosses(const Tensor& losses, SampleRange samples);

  const nn::Component& component(int index) const { return resources_.model->component(index); }
  const nn::Program& backbone() const { return resources_.model->backbone().program; }
  const Stage& stage(int id) const { return resources_.plan->stages(id); }
  LayerRange LayersOf(int stage_id) const;
  bool IsLastStage(int stage_id) const;
  // Where the computation of the current instruction began, after its waits.
  void MarkStart() { start_ns_ = MonotonicNow(); }
  void Record(int64_t step, TraceEvent::Stream stream);

  const RankResources resources_;
  const Rank rank_;
  const DeviceProgram* program_ = nullptr;
  FrozenStore frozen_;
  std::map<StageMicroBatch, MicroBatch> micro_batches_;
  std::map<StageMicroBatch, std::vector<Incoming>> incoming_activations_, incoming_grads_;
  std::map<std::pair<int64_t, int>, std::vector<Incoming>>
      incoming_frozen_;  // by (step, component)
  // Frozen chains under way: (step, component, first sample of the quantum).
  std::map<std::tuple<int64_t, int, int>, nn::ValueMap> frozen_values_;
  std::vector<std::unique_ptr<StepOptimizer>> optimizers_;  // by stage id, as stage_parameters

  std::vector<TraceEvent> events_;
  std::vector<StepLosses> losses_;
  int current_instruction_ = 0;
  bool record_ = false;
  Nanos start_ns_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_RANK_EXECUTOR_H_
