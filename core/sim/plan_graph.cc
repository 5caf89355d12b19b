#include "core/sim/plan_graph.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/schedule/rendezvous.h"
#include "core/schedule/trace_stats.h"

namespace dpipe {
namespace {

bool Overlap(const Range& a, const Range& b) { return a.begin() < b.end() && b.begin() < a.end(); }

bool IsMessage(const Instruction& instruction) {
  return instruction.kind() == Instruction::SEND || instruction.kind() == Instruction::RECV;
}

absl::Status OutOfRange(int rank, int index, const char* field, int64_t value, int64_t count) {
  return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ", instruction ", index, ": ",
                                                 field, " ", value, " is not below ", count));
}

bool UsesStage(Instruction::Kind kind) {
  return kind == Instruction::FORWARD || kind == Instruction::BACKWARD ||
         kind == Instruction::INPUT_GRAD || kind == Instruction::WEIGHT_GRAD ||
         kind == Instruction::REDUCE_GRADS;
}

// What indexing below relies on.
absl::Status CheckInstruction(const Plan& plan, const CostModel& cost, int rank, int index) {
  const Instruction& instruction = plan.devices(rank).instructions(index);
  int num_layers = cost.num_layers(cost.backbone());
  if (UsesStage(instruction.kind()) &&
      (instruction.stage() < 0 || instruction.stage() >= plan.stages_size())) {
    return OutOfRange(rank, index, "stage", instruction.stage(), plan.stages_size());
  }
  if (instruction.kind() == Instruction::LOAD_BATCH ||
      instruction.kind() == Instruction::FROZEN_FORWARD) {
    if (instruction.component() < 0 || instruction.component() >= cost.num_components()) {
      return OutOfRange(rank, index, "component", instruction.component(), cost.num_components());
    }
    num_layers = cost.num_layers(instruction.component());
  }
  const Range& layers = instruction.layers();
  if (layers.begin() < 0 || layers.begin() > layers.end() || layers.end() > num_layers) {
    return OutOfRange(rank, index, "layers.end", layers.end(), num_layers + 1);
  }
  const Range& samples = instruction.samples();
  const bool computes =
      IsBusyKind(instruction.kind()) && instruction.kind() != Instruction::OPTIMIZER_STEP;
  if (samples.end() < samples.begin() + (computes ? 1 : 0)) {
    return OutOfRange(rank, index, "samples.begin", samples.begin(), samples.end());
  }
  return absl::OkStatus();
}

class GraphBuilder {
 public:
  GraphBuilder(const Plan& plan, const CostModel& cost) : plan_(plan), cost_(cost) {}

  absl::StatusOr<PlanGraph> Build() {
    DPIPE_RETURN_IF_ERROR(CheckHeader());
    DPIPE_ASSIGN_OR_RETURN(const std::vector<std::vector<int>> match, MatchMessages(plan_));
    graph_.global_norm = plan_.global_norm();
    graph_.works_across_steps = WorksAcrossSteps(plan_);
    graph_.nodes.resize(plan_.devices_size());
    graph_.waits.resize(plan_.devices_size());
    for (int rank = 0; rank < plan_.devices_size(); ++rank) {
      DPIPE_RETURN_IF_ERROR(AddRank(rank, match[rank]));
    }
    return std::move(graph_);
  }

 private:
  absl::Status CheckHeader() {
    const int count = plan_.devices_size();
    if (count != cost_.num_devices()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan has ", count, " devices and the cluster ", cost_.num_devices()));
    }
    stage_of_.assign(count, -1);
    for (int s = 0; s < plan_.stages_size(); ++s) {
      const Range& layers = plan_.stages(s).layers();
      const int num_layers = cost_.num_layers(cost_.backbone());
      if (layers.begin() < 0 || layers.begin() > layers.end() || layers.end() > num_layers) {
        return absl::InvalidArgumentError(
            absl::StrCat("stage ", s, ": layers.end ", layers.end(), " of ", num_layers));
      }
      for (int rank : plan_.stages(s).ranks()) {
        if (rank < 0 || rank >= count) {
          return absl::InvalidArgumentError(
              absl::StrCat("stage ", s, ": rank ", rank, " of ", count));
        }
        stage_of_[rank] = s;
        if (s == 0) graph_.first_stage_ranks.push_back(rank);
      }
    }
    for (int rank = 0; rank < count; ++rank) {
      if (stage_of_[rank] < 0) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " holds no stage"));
      }
    }
    return absl::OkStatus();
  }

  // Received data of one rank, to be looked up by who reads it.
  struct Received {
    std::map<int, std::vector<int>> activations, gradients;  // by micro-batch
    std::vector<int> frozen;
  };

  absl::Status AddRank(int rank, const std::vector<int>& match) {
    const auto& list = plan_.devices(rank).instructions();
    Received received;
    for (int i = 0; i < list.size(); ++i) {
      DPIPE_RETURN_IF_ERROR(CheckInstruction(plan_, cost_, rank, i));
      if (UsesStage(list[i].kind()) && list[i].stage() != stage_of_[rank]) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ", instruction ", i,
                                                       ": stage ", list[i].stage(),
                                                       "; the rank holds stage ", stage_of_[rank]));
      }
      if (list[i].kind() != Instruction::RECV) continue;
      if (list[i].payload() == Instruction::FROZEN_OUTPUT) {
        received.frozen.push_back(i);
      } else {
        auto& of_payload = list[i].payload() == Instruction::ACTIVATION ? received.activations
                                                                        : received.gradients;
        of_payload[list[i].micro_batch()].push_back(i);
      }
    }
    std::map<int, int> reductions;  // of this rank so far, by stage
    int flushes = 0;
    int flushed = 0;  // messages before it have been waited for
    std::vector<PlanNode>& nodes = graph_.nodes[rank];
    nodes.resize(list.size());
    for (int i = 0; i < list.size(); ++i) {
      nodes[i].step_offset = list[i].step_offset();
      if (IsMessage(list[i])) {
        SetMessage(rank, list[i], match[i], &nodes[i]);
      } else if (list[i].kind() == Instruction::REDUCE_GRADS) {
        const int ordinal = reductions[list[i].stage()]++;
        SetReduction(rank, i, ordinal, &nodes[i]);
      } else if (list[i].kind() == Instruction::FLUSH) {
        nodes[i].flush = flushes++;
        SetFlush(rank, std::exchange(flushed, i), i, &nodes[i]);
      } else {
        SetCompute(rank, list[i], received, &nodes[i]);
      }
    }
    if (rank > 0 && flushes != graph_.num_flushes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, " has ", flushes, " FLUSHes and rank 0 has ", graph_.num_flushes));
    }
    graph_.num_flushes = flushes;
    return absl::OkStatus();
  }

  void SetMessage(int rank, const Instruction& message, int match, PlanNode* node) {
    node->kind = message.kind() == Instruction::SEND ? NodeKind::kSend : NodeKind::kRecv;
    node->peer = message.peer();
    node->match = match;
    node->duration = cost_.Transfer(rank, message.peer(), message.bytes());
  }

  void SetReduction(int rank, int index, int ordinal, PlanNode* node) {
    const Instruction& reduce = plan_.devices(rank).instructions(index);
    const auto& ranks = plan_.stages(reduce.stage()).ranks();
    const auto [entry, added] = reduction_ids_.emplace(std::make_pair(reduce.stage(), ordinal),
                                                       static_cast<int>(graph_.reductions.size()));
    if (added) graph_.reductions.push_back({ranks.size(), {}});
    graph_.reductions[entry->second].members.push_back({rank, index});
    node->kind = NodeKind::kReduce;
    node->reduction = entry->second;
    node->duration = cost_.AllReduce({ranks.begin(), ranks.end()}, reduce.bytes());
  }

  // Waits for every message in [begin, end) of the list that the same part of a step receives.
  void SetFlush(int rank, int begin, int end, PlanNode* node) {
    const auto& list = plan_.devices(rank).instructions();
    std::vector<PlanWait>& waits = graph_.waits[rank];
    node->kind = NodeKind::kFlush;
    node->waits_begin = static_cast<int>(waits.size());
    for (int i = begin; i < end; ++i) {
      const bool received = list[i].kind() == Instruction::RECV;
      if (received && list[i].step_offset() >= list[end].step_offset()) waits.push_back({i, false});
    }
    node->waits_end = static_cast<int>(waits.size());
  }

  void SetCompute(int rank, const Instruction& instruction, const Received& received,
                  PlanNode* node) {
    std::vector<PlanWait>& waits = graph_.waits[rank];
    node->waits_begin = static_cast<int>(waits.size());
    const Range& stage_layers = plan_.stages(stage_of_[rank]).layers();
    int reader = -1;  // the component whose layers may read frozen outputs
    switch (instruction.kind()) {
      case Instruction::OPTIMIZER_STEP:
        node->kind = NodeKind::kOptimizer;
        node->duration = cost_.Optimizer({stage_layers.begin(), stage_layers.end()});
        break;
      case Instruction::FORWARD:
        AddWaits(received.activations, instruction.micro_batch(), &waits);
        reader = cost_.backbone();
        break;
      case Instruction::BACKWARD:
      case Instruction::INPUT_GRAD:
        // Of a backward pass in parts the first, at the end of the stage, is what meets the
        // gradient.
        if (instruction.layers().end() == stage_layers.end()) {
          AddWaits(received.gradients, instruction.micro_batch(), &waits);
        }
        break;
      case Instruction::FROZEN_FORWARD:
        reader = instruction.component();
        break;
      default:
        break;
    }
    if (node->kind == NodeKind::kCompute)
      node->duration = cost_.InstructionTime(plan_, instruction, rank);
    if (reader >= 0) AddFrozenWaits(rank, instruction, reader, received, &waits);
    node->waits_end = static_cast<int>(waits.size());
  }

  static void AddWaits(const std::map<int, std::vector<int>>& by_micro_batch, int micro_batch,
                       std::vector<PlanWait>* waits) {
    const auto found = by_micro_batch.find(micro_batch);
    if (found == by_micro_batch.end()) return;
    for (int recv : found->second) waits->push_back({recv, false});
  }

  void AddFrozenWaits(int rank, const Instruction& instruction, int reader,
                      const Received& received, std::vector<PlanWait>* waits) {
    if (received.frozen.empty()) return;
    const std::vector<int> sources =
        cost_.SourcesOf(reader, {instruction.layers().begin(), instruction.layers().end()});
    for (int recv : received.frozen) {
      const Instruction& message = plan_.devices(rank).instructions(recv);
      if (!Overlap(message.samples(), instruction.samples())) continue;
      for (int source : sources) {
        if (source != message.component()) continue;
        waits->push_back({recv, message.step_offset() > instruction.step_offset()});
      }
    }
  }

  const Plan& plan_;
  const CostModel& cost_;
  PlanGraph graph_;
  std::vector<int> stage_of_;
  std::map<std::pair<int, int>, int> reduction_ids_;  // (stage, ordinal)
};

}  // namespace

absl::StatusOr<PlanGraph> MakePlanGraph(const Plan& plan, const CostModel& cost) {
  return GraphBuilder(plan, cost).Build();
}

}  // namespace dpipe
