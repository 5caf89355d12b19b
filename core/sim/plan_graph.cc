#include "core/sim/plan_graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/placement/weight_groups.h"
#include "core/schedule/trace_stats.h"
#include "core/sim/check_plan.h"
#include "core/sim/stage_times.h"

namespace dpipe {

namespace {

class GraphBuilder {
 public:
  GraphBuilder(const Plan& plan, const CostModel& cost)
      : plan_(plan), cost_(cost), num_micro_batches_(MaxMicroBatches(plan)), weights_(plan) {}

  absl::StatusOr<PlanGraph> Build() {
    DPIPE_RETURN_IF_ERROR(CheckPlanIndices(plan_, cost_));
    graph_.global_norm = plan_.global_norm();
    graph_.works_across_steps = WorksAcrossSteps(plan_);
    graph_.num_shared_links = cost_.shared_links().size();
    graph_.first_stage_ranks.assign(plan_.stages(0).ranks().begin(), plan_.stages(0).ranks().end());
    graph_.rank_begin.push_back(0);
    for (const DeviceProgram& program : plan_.devices()) {
      graph_.rank_begin.push_back(graph_.rank_begin.back() + program.instructions_size());
    }
    graph_.nodes.resize(graph_.rank_begin.back());
    DPIPE_RETURN_IF_ERROR(AddMessages());
    optimizer_ns_ = OptimizerTimes(plan_, cost_);
    stages_of_.resize(plan_.devices_size());
    for (int s = 0; s < plan_.stages_size(); ++s) {
      for (int rank : plan_.stages(s).ranks()) stages_of_[rank].push_back(s);
      sources_.push_back(cost_.SourcesOf(plan_.stages(s).component(), LayersIn(plan_.stages(s))));
    }
    inbox_of_stage_.assign(plan_.stages_size(), -1);
    for (int rank = 0; rank < plan_.devices_size(); ++rank) DPIPE_RETURN_IF_ERROR(AddRank(rank));
    AddCollectives();
    return std::move(graph_);
  }

 private:
  PlanNode& NodeAt(int rank, int instruction) {
    return graph_.nodes[graph_.rank_begin[rank] + instruction];
  }

  absl::Status AddMessages() {
    DPIPE_ASSIGN_OR_RETURN(const std::vector<MessagePair> pairs, PairMessages(plan_));
    graph_.messages.reserve(pairs.size());
    for (const auto& [send, recv] : pairs) {
      PlanMessage message;
      message.from = send.rank;
      message.to = recv.rank;
      message.send = send.instruction;
      message.recv = recv.instruction;
      const Instruction& sent = plan_.devices(send.rank).instructions(send.instruction);
      message.links_begin = static_cast<int>(graph_.link_uses.size());
      cost_.AppendLinksOf(send.rank, recv.rank, sent.bytes(), &graph_.link_uses);
      message.links_end = static_cast<int>(graph_.link_uses.size());
      message.duration = cost_.Transfer(send.rank, recv.rank, sent.bytes());
      const int index = static_cast<int>(graph_.messages.size());
      PlanNode& sender = NodeAt(send.rank, send.instruction);
      PlanNode& receiver = NodeAt(recv.rank, recv.instruction);
      sender.kind = NodeKind::kSend;
      receiver.kind = NodeKind::kRecv;
      sender.index = receiver.index = receiver.arrival = index;
      graph_.messages.push_back(message);
    }
    graph_.num_arrivals = static_cast<int>(pairs.size());
    return absl::OkStatus();
  }

  // ---- A rank's received messages by (stage, micro-batch), as linked lists of arrivals. ----
  int& Inbox(bool gradient, int stage, int micro_batch) {
    return inbox_[(static_cast<size_t>(inbox_of_stage_[stage]) * 2 + gradient) *
                      num_micro_batches_ +
                  micro_batch];
  }

  void CollectReceived(int rank) {
    const std::vector<int>& stages = stages_of_[rank];
    for (int k = 0; k < static_cast<int>(stages.size()); ++k) inbox_of_stage_[stages[k]] = k;
    inbox_.assign(stages.size() * 2 * num_micro_batches_, -1);
    next_in_inbox_.resize(graph_.messages.size(), -1);
    frozen_.Clear();
    const auto& list = plan_.devices(rank).instructions();
    for (int i = list.size() - 1; i >= 0; --i) {
      if (list[i].kind() != Instruction::RECV) continue;
      const int arrival = NodeAt(rank, i).arrival;
      if (IsOfFrozen(list[i].payload())) {
        const bool moves = list[i].payload() == Instruction::FROZEN_VALUES;
        frozen_.Add({list[i].component(), moves ? list[i].layers().begin() : FrozenInbox::kOutput,
                     list[i].step_offset(), SamplesIn(list[i]), arrival});
        continue;
      }
      int& head =
          Inbox(list[i].payload() == Instruction::GRADIENT, list[i].stage(), list[i].micro_batch());
      next_in_inbox_[arrival] = head;
      head = arrival;
    }
    frozen_.Sort();
  }

  absl::Status AddRank(int rank) {
    CollectReceived(rank);
    NumberSyncs(rank);
    pending_gathers_.clear();
    reductions_.clear();
    int flushes = 0;
    int flushed = 0;  // messages before this instruction have been awaited
    const auto& list = plan_.devices(rank).instructions();
    for (int i = 0; i < list.size(); ++i) {
      PlanNode& node = NodeAt(rank, i);
      node.step_offset = static_cast<int8_t>(list[i].step_offset());
      if (node.kind == NodeKind::kSend || node.kind == NodeKind::kRecv) continue;
      node.waits_begin = static_cast<int>(graph_.waits.size());
      if (list[i].kind() == Instruction::FLUSH) {
        node.kind = NodeKind::kFlush;
        node.index = flushes++;
        AddFlushWaits(rank, std::exchange(flushed, i), i);
      } else {
        AddWork(rank, i, &node);
      }
      node.waits_end = static_cast<int>(graph_.waits.size());
    }
    for (int stage : stages_of_[rank]) inbox_of_stage_[stage] = -1;
    if (rank > 0 && flushes != graph_.num_flushes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, " has ", flushes, " FLUSHes, but rank 0 has ", graph_.num_flushes));
    }
    graph_.num_flushes = flushes;
    return absl::OkStatus();
  }

  // Waits for every message in [begin, end) of the list that the same part of a step receives.
  void AddFlushWaits(int rank, int begin, int end) {
    const auto& list = plan_.devices(rank).instructions();
    for (int i = begin; i < end; ++i) {
      const bool received = list[i].kind() == Instruction::RECV;
      if (received && list[i].step_offset() >= list[end].step_offset()) {
        graph_.waits.push_back({NodeAt(rank, i).arrival, false});
      }
    }
  }

  void AddWork(int rank, int i, PlanNode* node) {
    const Instruction& instruction = plan_.devices(rank).instructions(i);
    switch (instruction.kind()) {
      case Instruction::REDUCE_GRADS:
        node->awaits_reductions = plan_.stages(instruction.stage()).sharded();
        return AddMember(rank, i, weights_.OfStage(instruction.stage()), node);
      case Instruction::GATHER_PARAMS:
        node->gathers = true;
        node->arrival = graph_.num_arrivals++;
        pending_gathers_.push_back(
            {plan_.stages(instruction.stage()).component(), LayersIn(instruction), node->arrival});
        return AddMember(rank, i, instruction.stage(), node);
      case Instruction::SYNC_PARAMS:
        node->gathers = true;
        syncing_ = node->arrival;
        return AddMember(rank, i, instruction.stage(), node);
      case Instruction::RELEASE_PARAMS:
        node->kind = NodeKind::kInstant;
        return;
      case Instruction::OPTIMIZER_STEP:
        node->kind = NodeKind::kOptimizer;
        node->duration = optimizer_ns_[rank];
        return;
      default:
        break;
    }
    node->duration = cost_.InstructionTime(plan_, instruction, rank);
    AwaitSync();
    AddWaits(instruction);
  }

  void AddWaits(const Instruction& pass) {
    switch (pass.kind()) {
      case Instruction::FORWARD:
        // If a pass is split, its first part waits for the messages.
        if (pass.layers().begin() == plan_.stages(pass.stage()).layers().begin()) {
          AwaitInbox(false, pass);
        }
        AwaitFrozen(plan_.stages(pass.stage()).component(), pass);
        return AwaitGathers(pass);
      case Instruction::BACKWARD:
      case Instruction::INPUT_GRAD:
        if (pass.layers().end() == plan_.stages(pass.stage()).layers().end()) {
          AwaitInbox(true, pass);
        }
        return AwaitGathers(pass);
      case Instruction::WEIGHT_GRAD:
      case Instruction::RECOMPUTE:
        return AwaitGathers(pass);
      case Instruction::FROZEN_FORWARD:
        frozen_.Await(pass.component(), pass.layers().begin(), pass.step_offset(), SamplesIn(pass),
                      &graph_.waits);
        return AwaitFrozen(pass.component(), pass);
      default:
        return;
    }
  }

  // Computation after shared updates waits for them, also in the next step.
  void AwaitSync() {
    const int arrival = std::exchange(syncing_, -1);
    if (arrival < 0) return;
    graph_.waits.push_back({arrival, std::exchange(sync_is_of_last_step_, false)});
  }

  // Numbers the arrivals of a rank's SYNC_PARAMS. If the list ends with one, the first computation
  // of the next step waits for it.
  void NumberSyncs(int rank) {
    const auto& list = plan_.devices(rank).instructions();
    for (int i = 0; i < list.size(); ++i) {
      if (list[i].kind() != Instruction::SYNC_PARAMS) continue;
      NodeAt(rank, i).arrival = graph_.num_arrivals++;
    }
    const int last = list.size() - 1;
    const bool ends = last >= 0 && list[last].kind() == Instruction::SYNC_PARAMS;
    syncing_ = ends ? NodeAt(rank, last).arrival : -1;
    sync_is_of_last_step_ = ends;
  }

  void AwaitInbox(bool gradient, const Instruction& pass) {
    for (int arrival = Inbox(gradient, pass.stage(), pass.micro_batch()); arrival >= 0;
         arrival = next_in_inbox_[arrival]) {
      graph_.waits.push_back({arrival, false});
    }
  }

  void AwaitFrozen(int component, const Instruction& pass) {
    if (frozen_.empty()) return;
    const bool whole_stage = pass.kind() == Instruction::FORWARD &&
                             LayersIn(pass) == LayersIn(plan_.stages(pass.stage()));
    const std::vector<int> part =
        whole_stage ? std::vector<int>() : cost_.SourcesOf(component, LayersIn(pass));
    for (int source : whole_stage ? sources_[pass.stage()] : part) {
      frozen_.Await(source, FrozenInbox::kOutput, pass.step_offset(), SamplesIn(pass),
                    &graph_.waits);
    }
  }

  void AwaitGathers(const Instruction& pass) {
    if (pending_gathers_.empty()) return;
    const int component = plan_.stages(pass.stage()).component();
    const auto needed = [&](const PendingGather& gather) {
      if (gather.component != component || gather.layers.Intersect(LayersIn(pass)).empty()) {
        return false;
      }
      graph_.waits.push_back({gather.arrival, false});
      return true;
    };
    pending_gathers_.erase(std::remove_if(pending_gathers_.begin(), pending_gathers_.end(), needed),
                           pending_gathers_.end());
  }

  // ---- Collectives ----

  struct Member {
    // Identifies the collective: the n-th gather of a stage by its rank, or a reduction of a weight
    // group's layers; of sharded stages the n-th one of these layers.
    std::tuple<bool, int, int, int, int> key;
    CollectiveMember at;
  };

  void AddMember(int rank, int i, int of, PlanNode* node) {
    const Instruction& instruction = plan_.devices(rank).instructions(i);
    node->kind = NodeKind::kCollective;
    if (node->gathers) {
      gathers_of_stage_.resize(plan_.stages_size(), {-1, 0});
      auto& [of_rank, count] = gathers_of_stage_[of];
      if (of_rank != rank) count = 0;
      of_rank = rank;
      members_.push_back({{true, of, count++, 0, 0}, {rank, i}});
    } else {
      const Range& layers = instruction.layers();
      const bool sharded = plan_.stages(instruction.stage()).sharded();
      const int before = sharded ? reductions_[{of, layers.begin()}]++ : 0;
      members_.push_back({{false, of, layers.begin(), layers.end(), before}, {rank, i}});
    }
  }

  CollectiveKind KindOf(const Instruction& instruction, bool gathers) const {
    if (instruction.kind() == Instruction::SYNC_PARAMS) return CollectiveKind::kAllReduce;
    if (gathers) return CollectiveKind::kAllGather;
    return plan_.stages(instruction.stage()).sharded() ? CollectiveKind::kReduceScatter
                                                       : CollectiveKind::kAllReduce;
  }

  // A rank that holds both directions' copies of a stage adds them first and takes part only once.
  void AddCollectives() {
    std::stable_sort(members_.begin(), members_.end(),
                     [](const Member& a, const Member& b) { return a.key < b.key; });
    std::vector<int> ranks;
    for (size_t begin = 0; begin < members_.size();) {
      const int index = static_cast<int>(graph_.collectives.size());
      PlanCollective collective;
      collective.members_begin = static_cast<int>(graph_.members.size());
      ranks.clear();
      size_t end = begin;
      for (; end < members_.size() && members_[end].key == members_[begin].key; ++end) {
        const CollectiveMember at = members_[end].at;
        const bool joins_later = end + 1 < members_.size() &&
                                 members_[end + 1].key == members_[end].key &&
                                 members_[end + 1].at.rank == at.rank;
        PlanNode& node = NodeAt(at.rank, at.instruction);
        if (joins_later) {
          node.kind = NodeKind::kInstant;
          continue;
        }
        node.index = index;
        ranks.push_back(at.rank);
        graph_.members.push_back(at);
      }
      const CollectiveMember first = members_[begin].at;
      collective.members_end = static_cast<int>(graph_.members.size());
      const Instruction& instruction = plan_.devices(first.rank).instructions(first.instruction);
      const CollectiveKind kind = KindOf(instruction, std::get<0>(members_[begin].key));
      collective.links_begin = static_cast<int>(graph_.link_uses.size());
      collective.duration = cost_.Collective(kind, ranks, instruction.bytes(), &graph_.link_uses);
      collective.links_end = static_cast<int>(graph_.link_uses.size());
      graph_.collectives.push_back(collective);
      begin = end;
    }
  }

  struct PendingGather {
    int component = 0;
    LayerRange layers;
    int arrival = 0;
  };

  const Plan& plan_;
  const CostModel& cost_;
  const int num_micro_batches_;
  const WeightGroups weights_;
  PlanGraph graph_;
  std::vector<Nanos> optimizer_ns_;          // by rank
  std::vector<std::vector<int>> stages_of_;  // by rank
  std::vector<std::vector<int>> sources_;    // by stage
  // by stage: (rank, number of its gathers so far)
  std::vector<std::pair<int, int>> gathers_of_stage_;
  std::vector<Member> members_;
  // State of the current rank.
  std::vector<int> inbox_of_stage_, inbox_, next_in_inbox_;
  FrozenInbox frozen_;
  std::vector<PendingGather> pending_gathers_;
  std::map<std::pair<int, int>, int> reductions_;  // of sharded stages, by weight group and layer
  int syncing_ = -1;  // arrival of the updates being shared; -1 if none
  bool sync_is_of_last_step_ = false;
};

}  // namespace

absl::StatusOr<PlanGraph> MakePlanGraph(const Plan& plan, const CostModel& cost) {
  return GraphBuilder(plan, cost).Build();
}

void FrozenInbox::Sort() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.component, a.layer, a.step_offset, a.samples.begin, a.arrival) <
           std::tie(b.component, b.layer, b.step_offset, b.samples.begin, b.arrival);
  });
}

void FrozenInbox::Await(int component, int layer, int step_offset, SampleRange samples,
                        std::vector<PlanWait>* waits) {
  using Key = std::tuple<int, int, int, int>;
  for (int offset = step_offset; offset <= 1; ++offset) {
    // Ranges do not overlap, so their ends increase with their beginnings.
    auto entry = std::lower_bound(
        entries_.begin(), entries_.end(), Key(component, layer, offset, samples.begin + 1),
        [](const Entry& e, const Key& key) {
          return Key(e.component, e.layer, e.step_offset, e.samples.end) < key;
        });
    for (; entry != entries_.end() && entry->component == component && entry->layer == layer &&
           entry->step_offset == offset && entry->samples.begin < samples.end;
         ++entry) {
      const bool previous_step = offset > step_offset;
      bool& awaited = previous_step ? entry->awaited_next_step : entry->awaited;
      if (!std::exchange(awaited, true)) waits->push_back({entry->arrival, previous_step});
    }
  }
}

}  // namespace dpipe
