#include "core/schedule/verification/verify.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/messages/rendezvous.h"
#include "core/schedule/placement/weight_groups.h"
#include "core/schedule/verification/frozen_ledger.h"
#include "core/schedule/verification/instruction_fields.h"
#include "core/schedule/verification/plan_shape.h"
#include "core/schedule/verification/stage_ledger.h"

namespace dpipe {
namespace {

// Walks one rank's list, whose fields are in range, and checks that each instruction's inputs are
// available.
class RankWalk {
 public:
  RankWalk(const Plan& plan, const PlanShape& shape, const CostModel& cost, int rank)
      : plan_(plan),
        cost_(cost),
        rank_(rank),
        frozen_(plan, shape, cost, rank),
        stages_(shape, cost, rank) {}

  absl::Status Run(std::vector<std::vector<int>>* computed) {
    const int count = plan_.devices(rank_).instructions_size();
    for (int i = 0; i < count; ++i) {
      const InstructionAt at{&plan_, rank_, i};
      const Instruction::Kind kind = plan_.devices(rank_).instructions(i).kind();
      if (stepped_ && kind != Instruction::SYNC_PARAMS) {
        return absl::InvalidArgumentError(at.Name() + "it comes after the last OPTIMIZER_STEP");
      }
      DPIPE_RETURN_IF_ERROR(Visit(at, plan_.devices(rank_).instructions(i)));
    }
    if (!stepped_)
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank_, ": there is no OPTIMIZER_STEP"));
    DPIPE_RETURN_IF_ERROR(stages_.CheckShared(rank_));
    return frozen_.Finish(computed);
  }

  const std::vector<LayerCollective>& collectives() const { return stages_.collectives(); }
  // The step_offset of each FLUSH, in list order.
  const std::vector<int>& flushes() const { return flushes_; }

 private:
  absl::Status Visit(const InstructionAt& at, const Instruction& instruction) {
    switch (instruction.kind()) {
      case Instruction::LOAD_BATCH:
        return frozen_.Load(at, instruction);
      case Instruction::FROZEN_FORWARD:
        return frozen_.Run(at, instruction);
      case Instruction::FORWARD:
        DPIPE_RETURN_IF_ERROR(stages_.Forward(at, instruction));
        return frozen_.CheckReadable(at, instruction.stage(), SamplesIn(instruction));
      case Instruction::RECOMPUTE:
        return stages_.Recompute(at, instruction);
      case Instruction::BACKWARD:
        DPIPE_RETURN_IF_ERROR(stages_.InputGrad(at, instruction));
        return stages_.WeightGrad(at, instruction);
      case Instruction::INPUT_GRAD:
        return stages_.InputGrad(at, instruction);
      case Instruction::WEIGHT_GRAD:
        return stages_.WeightGrad(at, instruction);
      case Instruction::SEND:
      case Instruction::RECV:
        return IsOfFrozen(instruction.payload()) ? FrozenMessage(at, instruction)
                                                 : stages_.Message(at, instruction);
      case Instruction::REDUCE_GRADS:
        return stages_.Reduce(at, instruction);
      case Instruction::FLUSH:
        flushes_.push_back(instruction.step_offset());
        return absl::OkStatus();
      case Instruction::GATHER_PARAMS:
        return stages_.Gather(at, instruction);
      case Instruction::RELEASE_PARAMS:
        return stages_.Release(at, instruction);
      case Instruction::SYNC_PARAMS:
        if (!plan_.has_relaxation())
          return absl::InvalidArgumentError(at.Name() + "the plan is not relaxed");
        return stages_.Sync(at, instruction);
      default:  // OPTIMIZER_STEP, as CheckFields has rejected all other kinds
        if (plan_.has_relaxation()) DPIPE_RETURN_IF_ERROR(stages_.Update(at, instruction));
        stepped_ =
            !plan_.has_relaxation() || instruction.micro_batch() == plan_.num_micro_batches() - 1;
        return stepped_ ? stages_.OptimizerStep(at) : absl::OkStatus();
    }
  }

  absl::Status FrozenMessage(const InstructionAt& at, const Instruction& message) {
    if (cost_.IsBackbone(message.component()))
      return absl::InvalidArgumentError(at.Name() + "a backbone is not frozen");
    const bool moves = message.payload() == Instruction::FROZEN_VALUES;
    const int64_t per_sample =
        moves ? cost_.MovedBytesPerSample(message.component(), message.layers().begin())
              : cost_.OutputBytesPerSample(message.component());
    DPIPE_RETURN_IF_ERROR(CheckBytes(at, message, per_sample * SamplesIn(message).size()));
    if (message.kind() == Instruction::SEND) {
      return moves ? frozen_.SendValues(at, message) : frozen_.Send(at, message);
    }
    return moves ? frozen_.ReceiveValues(at, message) : frozen_.Receive(at, message);
  }

  const Plan& plan_;
  const CostModel& cost_;
  const int rank_;
  FrozenLedger frozen_;
  StageLedger stages_;
  std::vector<int> flushes_;
  bool stepped_ = false;
};

// Checks that all ranks of a weight group gather parameters and sum gradients over the same layers
// in the same order: collectives are matched by their order alone.
absl::Status CheckCollectives(const PlanShape& shape,
                              const std::vector<std::vector<LayerCollective>>& collectives) {
  for (int g = 0; g < shape.weights().size(); ++g) {
    const WeightGroup& group = shape.weights().group(g);
    const auto of_rank = [&](int rank) {
      std::vector<std::pair<bool, LayerRange>> list;
      for (const LayerCollective& collective : collectives[rank]) {
        if (collective.weight_group == g) list.emplace_back(collective.gathers, collective.layers);
      }
      return list;
    };
    const auto first = of_rank(group.ranks[0]);
    for (int rank : group.ranks) {
      const auto other = of_rank(rank);
      if (other == first) continue;
      size_t i = 0;
      while (i < other.size() && i < first.size() && other[i] == first[i]) ++i;
      const auto name = [i](const std::vector<std::pair<bool, LayerRange>>& list) {
        if (i >= list.size()) return std::string("nothing");
        return absl::StrCat(list[i].first ? "GATHER_PARAMS" : "REDUCE_GRADS", " of layers ",
                            list[i].second.ToString());
      };
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", group.stages[0], ": collective number ", i, " is ", name(first),
                       " on rank ", group.ranks[0], " and ", name(other), " on rank ", rank));
    }
  }
  return absl::OkStatus();
}

// Checks that all ranks have the same FLUSHes, as each one waits for every rank.
absl::Status CheckFlushes(const std::vector<std::vector<int>>& flushes) {
  for (size_t r = 1; r < flushes.size(); ++r) {
    if (flushes[r] == flushes[0]) continue;
    return absl::InvalidArgumentError(absl::StrCat("rank ", r, " has ", flushes[r].size(),
                                                   " FLUSHes and rank 0 has ", flushes[0].size(),
                                                   ", or their step_offsets differ"));
  }
  return absl::OkStatus();
}

absl::Status CheckComputedOnce(const Plan& plan, const CostModel& cost,
                               const std::vector<std::vector<int>>& computed) {
  const int expected = plan.cached_frozen_outputs() ? 0 : 1;
  for (int component : cost.frozen_components()) {
    for (int n = 0; n < plan.global_batch(); ++n) {
      if (computed[component][n] == expected) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "component ", component, " '", plan.components(component).name(), "', sample ", n,
          ": computed ", computed[component][n], " times and must be ", expected));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyPlan(const Plan& plan, const CostModel& cost) {
  DPIPE_ASSIGN_OR_RETURN(const PlanShape shape, PlanShape::Create(plan, cost));
  std::vector<std::vector<int>> computed(plan.components_size(),
                                         std::vector<int>(plan.global_batch(), 0));
  std::vector<std::vector<LayerCollective>> collectives;
  std::vector<std::vector<int>> flushes;
  for (int r = 0; r < plan.devices_size(); ++r) {
    for (int i = 0; i < plan.devices(r).instructions_size(); ++i) {
      DPIPE_RETURN_IF_ERROR(CheckFields(plan, shape, r, i));
    }
    RankWalk walk(plan, shape, cost, r);
    DPIPE_RETURN_IF_ERROR(walk.Run(&computed));
    collectives.push_back(walk.collectives());
    flushes.push_back(walk.flushes());
  }
  DPIPE_RETURN_IF_ERROR(CheckCollectives(shape, collectives));
  DPIPE_RETURN_IF_ERROR(CheckFlushes(flushes));
  DPIPE_RETURN_IF_ERROR(CheckComputedOnce(plan, cost, computed));
  DPIPE_RETURN_IF_ERROR(CheckRendezvous(plan));
  return CheckMemory(plan, cost);
}

absl::Status VerifyPlan(const Plan& plan, const ModelProfile& profile, const ClusterSpec& cluster) {
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost, CostModel::Create(profile, cluster));
  return VerifyPlan(plan, cost);
}

}  // namespace dpipe
