// One rank of a symbolic run (symbolic_run.h): what it computes and holds.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_RANK_H_
#define DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_RANK_H_

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/testing/symbolic_values.h"

namespace dpipe::symbolic {

using FrozenKey = std::tuple<int, int, int>;     // component, sample, step
using PassKey = std::tuple<int, int, int, int>;  // stage, micro-batch, sample, step

class SymbolicRank {
 public:
  // `computed` collects the frozen outputs that any rank has computed. Keeps references.
  SymbolicRank(const Plan& plan, const CostModel& cost, int rank, std::set<FrozenKey>* computed);

  // Runs LOAD_BATCH, FROZEN_FORWARD or a pass of a backbone, for `step`.
  absl::Status Compute(const Instruction& instruction, int step);
  void SetGathered(const Instruction& instruction);  // GATHER_PARAMS, RELEASE_PARAMS
  void StepWeights();                                // OPTIMIZER_STEP

  // Returns what a SEND carries for one sample; a frozen chain that it moves is no longer here.
  // Accept stores what a RECV brings.
  absl::StatusOr<Hash> TakePayload(const Instruction& send, int sample, int step);
  void Accept(const Instruction& recv, int sample, int step, Hash value);

  // The gradient sums of a stage's layers.
  std::vector<Hash>& sums(int stage) { return stages_[stage].sums; }
  // Returns the weights of all gradient-carrying stages, by stage and layer.
  std::vector<Hash> Weights() const;

 private:
  // The state of one gradient-carrying stage. The first lap of self-conditioning uses the state of
  // the second lap.
  struct StageWeights {
    std::vector<Hash> weights, sums;  // by layer of the stage
    std::vector<bool> gathered;       // by layer; always true unless the stage is sharded
  };
  // One sample on its way through one stage.
  struct Passage {
    std::map<int, Hash> inputs;     // by layer; FORWARD drops them if RECOMPUTE makes them again
    std::map<int, Hash> blocks;     // inputs of the stage's blocks after the first, by layer
    std::map<int, Hash> gradients;  // by layer: the gradient of its output
    Hash front = 0;                 // the input of the stage
    Hash output = 0;
    int next = 0;  // the next layer of the forward pass
    bool complete = false;
  };

  const PipelineChain& ChainOf(int stage) const {
    return plan_.chains(plan_.stages(stage).chain());
  }
  bool IsFirst(int stage) const { return ChainOf(stage).first_stage() == stage; }
  bool IsLast(int stage) const {
    return ChainOf(stage).first_stage() + ChainOf(stage).num_stages() == stage + 1;
  }
  bool BeginsSecondLap(int stage) const {
    return !IsFirst(stage) && plan_.stages(stage - 1).forward_only() &&
           !plan_.stages(stage).forward_only();
  }
  bool Holds(int stage) const { return holds_[stage]; }
  bool IsGathered(int stage, int layer) {
    const int begin = plan_.stages(stage).layers().begin();
    return stages_[weights_of_[stage]].gathered[layer - begin];
  }
  void AddStage(int stage);
  absl::Status ComputeSample(const Instruction& i, int n, int step);

  // Returns the frozen outputs that a layer reads, as one symbol.
  absl::StatusOr<Hash> Sources(int component, int layer, int n, int step) const;
  absl::Status Load(const Instruction& i, int n, int step);
  absl::Status Frozen(const Instruction& i, int n, int step);

  // FromBefore returns the output of the previous stage, from this rank or received. Front returns
  // the input of a stage.
  absl::StatusOr<Hash> FromBefore(int stage, const PassKey& key);
  absl::StatusOr<Hash> Front(int stage, const PassKey& key);
  // Applies the instruction's layers to `value`; sets the passage's inputs.
  absl::StatusOr<Hash> RunLayers(const Instruction& i, int n, int step, Hash value,
                                 Passage* passage);
  absl::Status Forward(const Instruction& i, int n, int step);
  absl::Status Recompute(const Instruction& i, int n, int step);
  // Returns the gradient that arrives at the end of a stage.
  absl::StatusOr<Hash> Arriving(const PassKey& key, const Passage& passage);
  absl::Status InputGrad(const Instruction& i, int n, int step);
  absl::Status Weight(const Instruction& i, int n, int step);

  const Plan& plan_;
  const CostModel& cost_;
  std::set<FrozenKey>* const computed_;
  std::vector<bool> holds_;      // by stage
  std::vector<int> weights_of_;  // by stage: the stage whose weights it uses; -1: not on this rank
  std::map<int, StageWeights> stages_;
  std::map<FrozenKey, std::pair<int, Hash>> chains_;  // frozen work begun: next layer, value
  std::map<FrozenKey, Hash> outputs_;                 // of frozen components
  std::map<PassKey, Passage> passages_;
  std::map<PassKey, Hash> activations_, gradients_;  // received
};

}  // namespace dpipe::symbolic

#endif  // DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_RANK_H_
