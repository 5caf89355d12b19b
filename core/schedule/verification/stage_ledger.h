// What one rank knows about its stages while its list is verified: which micro-batches have gone
// forward, how far gradients have propagated, and what has been received, summed and reduced.
#ifndef DPIPE_CORE_SCHEDULE_VERIFICATION_STAGE_LEDGER_H_
#define DPIPE_CORE_SCHEDULE_VERIFICATION_STAGE_LEDGER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/verification/plan_shape.h"

namespace dpipe {

// A REDUCE_GRADS, GATHER_PARAMS or SYNC_PARAMS over some layers of a weight group. SYNC_PARAMS
// counts as a gather.
struct LayerCollective {
  int weight_group = 0;
  bool gathers = false;
  LayerRange layers;
};

class StageLedger {
 public:
  StageLedger(const PlanShape& shape, const CostModel& cost, int rank);

  // Each checks and then records one instruction, in list order. Its fields must be in range.
  absl::Status Forward(const InstructionAt& at, const Instruction& pass);
  absl::Status Recompute(const InstructionAt& at, const Instruction& pass);
  absl::Status InputGrad(const InstructionAt& at, const Instruction& pass);
  absl::Status WeightGrad(const InstructionAt& at, const Instruction& pass);
  absl::Status Message(const InstructionAt& at, const Instruction& message);  // not FROZEN_OUTPUT
  absl::Status Reduce(const InstructionAt& at, const Instruction& reduce);
  absl::Status Gather(const InstructionAt& at, const Instruction& gather);
  absl::Status Release(const InstructionAt& at, const Instruction& release);
  // In relaxed plans: an update must have the gradients of exactly its micro-batches, and
  // SYNC_PARAMS must follow the updates that it shares.
  absl::Status Update(const InstructionAt& at, const Instruction& update);
  absl::Status Sync(const InstructionAt& at, const Instruction& sync);
  // Call it after the list: checks that all updates have been shared.
  absl::Status CheckShared(int rank) const;
  // Checks that everything that the optimizer needs has been done.
  absl::Status OptimizerStep(const InstructionAt& at) const;

  const std::vector<LayerCollective>& collectives() const { return collectives_; }

 private:
  // The received samples of every micro-batch.
  struct Received {
    std::vector<uint8_t> samples;  // by micro-batch and sample of the rank's share
    std::vector<int> count;        // by micro-batch
  };
  struct StageState {
    int stage = 0;
    const StageShape* shape = nullptr;
    int share = 0;                   // this rank's samples per micro-batch
    std::vector<int> forward_layer;  // by micro-batch: the next layer to go forward
    // By micro-batch, if the stage recomputes: the number of blocks that are not complete again,
    // and the next layer to be recomputed, of the last of them.
    std::vector<int> blocks_left, recomputed_layer;
    std::vector<int> gradient_layer;  // by micro-batch: layers from here on have input gradients
    Received activations, gradients;
    std::vector<int> next_weight;  // by layer: the micro-batch whose weight gradient is next
    std::vector<uint8_t> reduced;  // by layer
  };

  StageState& StateOf(int stage);
  bool OthersHold(const StageState& state) const {
    return !state.shape->forward_only && shape_.weights().GroupOf(state.stage).ranks.size() > 1;
  }
  bool IsReduced(const StageState& state) const {
    return !shape_.is_relaxed() && OthersHold(state);
  }
  bool SharesUpdates(const StageState& state) const {
    return shape_.relaxation().updates_per_sync() > 0 && OthersHold(state);
  }
  // The number of updates since the last SYNC_PARAMS.
  int NumUnshared() const { return updates_ - syncs_ * shape_.relaxation().updates_per_sync(); }
  absl::Status CheckSamples(const InstructionAt& at, const Instruction& pass) const;
  static bool IsForward(const StageState& state, int micro_batch) {
    return state.forward_layer[micro_batch] == state.shape->layers.end;
  }
  // Checks that the activations of a layer are here: that it has gone forward and is recomputed.
  absl::Status CheckActivations(const InstructionAt& at, const StageState& state, int micro_batch,
                                int layer) const;
  // For a forward pass or RECOMPUTE over a stage or one of its blocks: checks that the pass begins
  // at `next_layer`, and covers all of `layers` unless the stage is sharded.
  absl::Status CheckForward(const InstructionAt& at, const Instruction& pass,
                            const StageState& state, LayerRange layers, int next_layer) const;
  absl::Status CheckGathered(const InstructionAt& at, const Instruction& pass,
                             const StageState& state) const;
  absl::Status CheckReceived(const InstructionAt& at, const char* what, const Received& received,
                             const StageState& state, int micro_batch) const;
  absl::Status CheckWeights(const InstructionAt& at, const StageState& state, int layer) const;
  absl::Status CheckRoute(const InstructionAt& at, const Instruction& message,
                          const StageState& state) const;

  const PlanShape& shape_;
  const CostModel& cost_;
  const int rank_;
  std::vector<StageState> states_;
  std::vector<LayerCollective> collectives_;
  int updates_ = 0, syncs_ = 0;                 // of relaxed plans
  std::vector<std::vector<uint8_t>> gathered_;  // by component and layer, of sharded stages
};

// InvalidArgument unless the instruction's `bytes` is `expected`.
absl::Status CheckBytes(const InstructionAt& at, const Instruction& instruction, int64_t expected);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_VERIFICATION_STAGE_LEDGER_H_
