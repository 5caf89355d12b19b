// One rank of a symbolic run: what it computes and holds. See symbolic_run.h.
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
  // `computed`: of all ranks, the last layers of frozen components. Keeps references.
  SymbolicRank(const Plan& plan, const CostModel& cost, int rank, std::set<FrozenKey>* computed);

  // LOAD_BATCH, FROZEN_FORWARD and the passes of the backbones, for `step`.
  absl::Status Compute(const Instruction& instruction, int step);
  void SetGathered(const Instruction& instruction);  // GATHER_PARAMS, RELEASE_PARAMS
  void StepWeights();                                // OPTIMIZER_STEP

  // What a SEND carries of a sample, and what a RECV brings.
  absl::StatusOr<Hash> Payload(const Instruction& send, int sample, int step) const;
  void Accept(const Instruction& recv, int sample, int step, Hash value);

  // The sums of gradients of a stage's layers.
  std::vector<Hash>& sums(int stage) { return stages_[stage].sums; }
  // The weights of all gradient-carrying stages, by stage and layer.
  std::vector<Hash> Weights() const;

 private:
  // What one gradient-carrying stage holds; a first lap of self-conditioning uses those of the
  // second.
  struct StageWeights {
    std::vector<Hash> weights, sums;  // by layer of the stage
    std::vector<bool> gathered;       // where sharded
  };
  // One sample's passage through one stage.
  struct Passage {
    std::map<int, Hash> inputs;     // by layer; dropped by FORWARD where RECOMPUTE makes them again
    std::map<int, Hash> gradients;  // arriving at the layer's output
    Hash front = 0;                 // what came in
    Hash output = 0;
    int next = 0;  // layer of the forward pass
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

  // The frozen outputs that a layer reads, as one symbol.
  absl::StatusOr<Hash> Sources(int component, int layer, int n, int step) const;
  absl::Status Load(const Instruction& i, int n, int step);
  absl::Status Frozen(const Instruction& i, int n, int step);

  // What the stage before made, from this rank or received; what a stage begins with.
  absl::StatusOr<Hash> FromBefore(int stage, const PassKey& key);
  absl::StatusOr<Hash> Front(int stage, const PassKey& key);
  // The instruction's layers on `value`; sets the passage's inputs.
  absl::StatusOr<Hash> RunLayers(const Instruction& i, int n, int step, Hash value,
                                 Passage* passage);
  absl::Status Forward(const Instruction& i, int n, int step);
  absl::Status Recompute(const Instruction& i, int n, int step);
  // The gradient that arrives at the end of a stage.
  absl::StatusOr<Hash> Arriving(const PassKey& key, const Passage& passage);
  absl::Status InputGrad(const Instruction& i, int n, int step);
  absl::Status Weight(const Instruction& i, int n, int step);

  const Plan& plan_;
  const CostModel& cost_;
  std::set<FrozenKey>* const computed_;
  std::vector<bool> holds_;      // by stage
  std::vector<int> weights_of_;  // by stage of the rank: the stage whose weights it uses
  std::map<int, StageWeights> stages_;
  std::map<FrozenKey, std::pair<int, Hash>> chains_;  // of frozen work: next layer, value
  std::map<FrozenKey, Hash> outputs_;                 // of frozen components
  std::map<PassKey, Passage> passages_;
  std::map<PassKey, Hash> activations_, gradients_;  // received
};

}  // namespace dpipe::symbolic

#endif  // DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_RANK_H_
