#include "core/schedule/testing/symbolic_run.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "core/proto/instruction_parts.h"
#include "core/schedule/placement/weight_groups.h"
#include "core/schedule/testing/symbolic_rank.h"
#include "core/schedule/testing/symbolic_values.h"

namespace dpipe {
namespace {

using symbolic::FrozenKey;
using symbolic::Hash;
using symbolic::PassKey;
using symbolic::SymbolicRank;

absl::Status Missing(const std::string& what) { return absl::InternalError(what); }

struct RankState {
  explicit RankState(SymbolicRank symbols) : symbols(std::move(symbols)) {}

  SymbolicRank symbols;
  int step = -1, next = 0;
  int sent_end = 0;                                     // messages before it have been posted
  std::map<std::tuple<int, int, int>, int> reductions;  // completed, by step, weight group, layer
};

// Orders instructions, delivers messages and reduces gradients.
class SymbolicRun {
 public:
  SymbolicRun(const Plan& plan, const CostModel& cost, int num_steps)
      : plan_(plan), num_steps_(num_steps), weights_(plan) {
    for (int r = 0; r < plan.devices_size(); ++r) {
      ranks_.emplace_back(SymbolicRank(plan, cost, r, &computed_));
    }
  }

  absl::StatusOr<std::vector<std::vector<Hash>>> Run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
        for (;;) {
          DPIPE_ASSIGN_OR_RETURN(const bool advanced, Advance(r));
          if (!advanced) break;
          progress = true;
        }
      }
    }
    std::vector<std::vector<Hash>> result;
    for (const RankState& rank : ranks_) {
      if (rank.step < num_steps_) return Missing("a rank waits forever");
      result.push_back(rank.symbols.Weights());
    }
    return result;
  }

 private:
  bool Active(const Instruction& instruction, int step) const {
    if (step == -1) return instruction.step_offset() == 1;
    return step + 1 < num_steps_ || instruction.step_offset() == 0;
  }

  absl::StatusOr<bool> Advance(int r) {
    RankState& rank = ranks_[r];
    if (rank.step == num_steps_) return false;
    const auto& list = plan_.devices(r).instructions();
    if (rank.next == list.size()) {
      rank.next = rank.sent_end = 0;
      ++rank.step;
      return true;
    }
    const Instruction& instruction = list[rank.next];
    if (Active(instruction, rank.step)) {
      DPIPE_RETURN_IF_ERROR(SendGroup(r));
      DPIPE_ASSIGN_OR_RETURN(const bool done, Execute(r, instruction));
      if (!done) return false;
    }
    ++rank.next;
    return true;
  }

  // Consecutive messages are posted together, so a RECV does not delay a SEND that follows it.
  absl::Status SendGroup(int r) {
    RankState& rank = ranks_[r];
    const auto& list = plan_.devices(r).instructions();
    for (int k = std::max(rank.next, rank.sent_end); k < list.size(); ++k) {
      if (!Active(list[k], rank.step)) continue;
      if (!IsMessage(list[k])) break;
      rank.sent_end = k + 1;
      if (list[k].kind() != Instruction::SEND) continue;
      DPIPE_RETURN_IF_ERROR(Send(r, list[k], rank.step + list[k].step_offset()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Execute(int r, const Instruction& i) {
    const int step = ranks_[r].step + i.step_offset();
    SymbolicRank& symbols = ranks_[r].symbols;
    switch (i.kind()) {
      case Instruction::SEND:
        return true;  // SendGroup
      case Instruction::RECV:
        return Receive(r, i, step);
      case Instruction::REDUCE_GRADS:
        return Reduce(r, i);
      case Instruction::GATHER_PARAMS:
      case Instruction::RELEASE_PARAMS:
        symbols.SetGathered(i);
        return true;
      case Instruction::OPTIMIZER_STEP:
        symbols.StepWeights();
        return true;
      default:
        DPIPE_RETURN_IF_ERROR(symbols.Compute(i, step));
        return true;
    }
  }

  // Messages carry the receiver's key, so that the receiver can check them.
  struct Message {
    Instruction::Payload payload = Instruction::PAYLOAD_NONE;
    PassKey key;  // stage or component, micro-batch or next layer, first sample, step
    std::vector<Hash> values;
  };

  static PassKey KeyOf(const Instruction& i, int stage, int step) {
    const bool frozen = IsOfFrozen(i.payload());
    const bool moves = i.payload() == Instruction::FROZEN_VALUES;
    return {frozen ? i.component() : stage,
            frozen ? (moves ? i.layers().begin() : -1) : i.micro_batch(), i.samples().begin(),
            step};
  }

  absl::Status Send(int r, const Instruction& i, int step) {
    Message message{i.payload(), KeyOf(i, i.peer_stage(), step), {}};
    for (int n = i.samples().begin(); n < i.samples().end(); ++n) {
      DPIPE_ASSIGN_OR_RETURN(const Hash value, ranks_[r].symbols.TakePayload(i, n, step));
      message.values.push_back(value);
    }
    links_[{r, i.peer()}].push_back(std::move(message));
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Receive(int r, const Instruction& i, int step) {
    auto& queue = links_[{i.peer(), r}];
    if (queue.empty()) return false;
    const Message message = std::move(queue.front());
    queue.pop_front();
    const int count = i.samples().end() - i.samples().begin();
    if (message.payload != i.payload() || message.key != KeyOf(i, i.stage(), step) ||
        static_cast<int>(message.values.size()) != count) {
      return Missing("an unexpected message arrives");
    }
    for (int k = 0; k < count; ++k) {
      ranks_[r].symbols.Accept(i, i.samples().begin() + k, step, message.values[k]);
    }
    return true;
  }

  // Waits for all ranks of the weight group. Every rank then reduces for itself.
  absl::StatusOr<bool> Reduce(int r, const Instruction& i) {
    RankState& rank = ranks_[r];
    const int group = weights_.OfStage(i.stage());
    const int offset = i.layers().begin() - plan_.stages(i.stage()).layers().begin();
    int& done = rank.reductions[{rank.step, group, i.layers().begin()}];
    auto& parts = reduce_parts_[{rank.step, group, i.layers().begin(), done}];
    std::vector<Hash>& sums = rank.symbols.sums(i.stage());
    const int count = i.layers().end() - i.layers().begin();
    if (parts.count(r) == 0) {
      const auto first = sums.begin() + offset;
      parts[r].assign(first, first + count);
    }
    if (parts.size() < weights_.group(group).ranks.size()) return false;
    for (int k = 0; k < count; ++k) {
      Hash total = symbolic::kReduce;
      for (const auto& [member, part] : parts) {
        if (static_cast<int>(part.size()) != count) return Missing("ranks reduce different layers");
        total = symbolic::Reduced(total, part[k]);
      }
      sums[offset + k] = total;
    }
    ++done;
    return true;
  }

  const Plan& plan_;
  const int num_steps_;
  const WeightGroups weights_;
  std::set<FrozenKey> computed_;
  std::vector<RankState> ranks_;
  std::map<std::pair<int, int>, std::deque<Message>> links_;
  // By step, weight group, first layer and how many reductions came before; then by rank.
  std::map<std::tuple<int, int, int, int>, std::map<int, std::vector<Hash>>> reduce_parts_;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<uint64_t>>> RunSymbolically(const Plan& plan,
                                                                   const CostModel& cost,
                                                                   int num_steps) {
  return SymbolicRun(plan, cost, num_steps).Run();
}

}  // namespace dpipe
