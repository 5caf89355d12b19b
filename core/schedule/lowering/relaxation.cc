#include "core/schedule/lowering/relaxation.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

absl::Status Bad(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("relaxed plan: ", what));
}

// True if the pass is the last one of its micro-batch that adds weight gradients.
bool CompletesGradients(const Plan& plan, const Instruction& pass) {
  const bool adds = ComputesWeightGrad(pass.kind());
  return adds && pass.layers().begin() == plan.stages(pass.stage()).layers().begin();
}

// True if the pass is the last one of its micro-batch that reads the weights.
bool ReadsWeightsLast(const Plan& plan, const Instruction& pass) {
  const bool reads = ComputesInputGrad(pass.kind());
  return reads && pass.layers().begin() == plan.stages(pass.stage()).layers().begin();
}

Instruction Blank(Instruction::Kind kind) {
  Instruction instruction;
  instruction.set_kind(kind);
  instruction.set_stage(-1);
  instruction.set_component(-1);
  instruction.set_micro_batch(-1);
  instruction.set_peer(-1);
  instruction.set_peer_stage(-1);
  return instruction;
}

// Turns one rank's synchronous list into a relaxed one.
class RankRelaxer {
 public:
  RankRelaxer(const Plan& plan, const Stage& stage, const CostModel& cost, DeviceProgram* program)
      : plan_(plan), stage_(stage), cost_(cost), program_(program) {}

  void Run(const DeviceProgram& synchronous) {
    const int last = plan_.num_micro_batches() - 1;
    for (const Instruction& instruction : synchronous.instructions()) {
      if (instruction.kind() == Instruction::REDUCE_GRADS) continue;
      if (instruction.kind() == Instruction::OPTIMIZER_STEP) {
        AddUpdate(last);
        continue;
      }
      if (due_ >= 0 && !IsMessage(instruction)) AddUpdate(std::exchange(due_, -1));
      *program_->add_instructions() = instruction;
      const int m = instruction.micro_batch();
      if (CompletesGradients(plan_, instruction) && m < last && (m + 1) % PerUpdate() == 0) {
        due_ = m;
      }
    }
  }

 private:
  int PerUpdate() const { return plan_.relaxation().micro_batches_per_update(); }

  void AddUpdate(int last_micro_batch) {
    Instruction update = Blank(Instruction::OPTIMIZER_STEP);
    update.set_micro_batch(last_micro_batch);
    *program_->add_instructions() = update;
    const int per_sync = plan_.relaxation().updates_per_sync();
    if (++updates_ % std::max(1, per_sync) != 0 || per_sync == 0 || stage_.ranks_size() == 1) {
      return;
    }
    Instruction sync = Blank(Instruction::SYNC_PARAMS);
    sync.set_stage(stage_.id());
    *sync.mutable_layers() = stage_.layers();
    sync.set_bytes(cost_.GradientBytes(stage_.component(), LayersIn(stage_)));
    *program_->add_instructions() = sync;
  }

  const Plan& plan_;
  const Stage& stage_;
  const CostModel& cost_;
  DeviceProgram* const program_;
  int due_ = -1;  // the last micro-batch of an update not yet added; -1: none
  int updates_ = 0;
};

// Returns the maximum number of weight versions that a rank stashes for later backward passes.
int MaxStashed(const Plan& plan, int rank) {
  std::map<int, int> pinned;  // by micro-batch in flight: the version that it has seen
  std::set<int> stashed;
  int version = 0, max_stashed = 0;
  for (const Instruction& instruction : plan.devices(rank).instructions()) {
    if (instruction.kind() == Instruction::FORWARD) {
      pinned.emplace(instruction.micro_batch(), version);
    } else if (ReadsWeightsLast(plan, instruction)) {
      pinned.erase(instruction.micro_batch());
    } else if (instruction.kind() == Instruction::OPTIMIZER_STEP) {
      stashed.clear();
      for (const auto& [micro_batch, of] : pinned) stashed.insert(of);
      max_stashed = std::max(max_stashed, static_cast<int>(stashed.size()));
      ++version;
    }
  }
  return max_stashed;
}

}  // namespace

absl::StatusOr<Plan> RelaxPlan(Plan plan, const Relaxation& relaxation, const CostModel& cost) {
  const Plan synchronous = plan;
  *plan.mutable_relaxation() = relaxation;
  plan.set_global_norm(false);
  DPIPE_RETURN_IF_ERROR(CheckRelaxation(plan));
  std::vector<int> stage_of(plan.num_devices(), 0);
  for (const Stage& stage : plan.stages()) {
    for (int rank : stage.ranks()) stage_of[rank] = stage.id();
  }
  for (int r = 0; r < plan.devices_size(); ++r) {
    DeviceProgram* program = plan.mutable_devices(r);
    program->clear_instructions();
    RankRelaxer(plan, plan.stages(stage_of[program->rank()]), cost, program)
        .Run(synchronous.devices(r));
  }
  return plan;
}

absl::Status CheckRelaxation(const Plan& plan) {
  if (!plan.has_relaxation()) return absl::OkStatus();
  const Relaxation& relaxation = plan.relaxation();
  if (relaxation.weights() != Relaxation::STASHED &&
      relaxation.weights() != Relaxation::PREDICTED) {
    return Bad(absl::StrCat("weights must be STASHED or PREDICTED, not ",
                            Relaxation::Weights_Name(relaxation.weights())));
  }
  if (plan.chains_size() != 1) {
    return Bad(absl::StrCat("it has ", plan.chains_size(), " chains and must have one"));
  }
  if (plan.global_norm()) return Bad("global_norm is true and must be false");
  const int count = plan.num_micro_batches(), per_update = relaxation.micro_batches_per_update();
  if (per_update < 1 || count % per_update != 0) {
    return Bad(absl::StrCat(count, " micro-batches are not a multiple of the ", per_update,
                            " per update"));
  }
  const int per_sync = relaxation.updates_per_sync();
  if (per_sync < 0 || (per_sync > 0 && count / per_update % per_sync != 0)) {
    return Bad(absl::StrCat(count / per_update, " updates are not a multiple of the ", per_sync,
                            " per SYNC_PARAMS"));
  }
  std::vector<int> stages(plan.num_devices(), 0);
  for (const Stage& stage : plan.stages()) {
    const std::string where = absl::StrCat("stage ", stage.id(), " ");
    if (stage.forward_only()) return Bad(where + "is forward-only");
    if (stage.sharded()) return Bad(where + "is sharded");
    if (stage.recompute() && relaxation.weights() == Relaxation::PREDICTED) {
      return Bad(where + "recomputes, but would see other weights than the predicted ones");
    }
    if (per_sync == 0 && stage.ranks_size() > 1) {
      return Bad(
          absl::StrCat(where, "is on ", stage.ranks_size(),
                       " ranks, but updates_per_sync is 0: their weights would drift apart"));
    }
    if (plan.devices_per_pipeline() != plan.stages_size()) {
      return Bad(absl::StrCat(plan.stages_size(), " stages in a pipeline of ",
                              plan.devices_per_pipeline(),
                              " devices: each device must hold exactly one stage"));
    }
    for (int rank : stage.ranks()) {
      if (rank < 0 || rank >= plan.num_devices() || ++stages[rank] == 1) continue;
      return Bad(absl::StrCat("rank ", rank, " holds several stages"));
    }
  }
  return absl::OkStatus();
}

int UpdatesPerStep(const Plan& plan) {
  return plan.num_micro_batches() / plan.relaxation().micro_batches_per_update();
}

int WeightCopies(const Plan& plan, int rank) {
  if (!plan.has_relaxation()) return 0;
  // Sharing needs the weights of the last SYNC_PARAMS, and the change since then.
  const int shared = plan.relaxation().updates_per_sync() > 0 ? 2 : 0;
  const bool stashes = plan.relaxation().weights() == Relaxation::STASHED;
  return shared + (stashes ? MaxStashed(plan, rank) : 1);
}

}  // namespace dpipe
