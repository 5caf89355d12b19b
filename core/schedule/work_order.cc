#include "core/schedule/work_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/proto/instruction_parts.h"
#include "core/schedule/gradient_groups.h"
#include "core/schedule/param_gathers.h"
#include "core/schedule/recv_positions.h"

namespace dpipe {
namespace {

constexpr Nanos kUnknown = -1;
constexpr Nanos kAtTheEnd = std::numeric_limits<Nanos>::max() / 2;

bool AddsWeights(Pass pass) { return pass == Pass::kBackward || pass == Pass::kWeightGrad; }
bool GivesGradient(Pass pass) { return pass == Pass::kBackward || pass == Pass::kInputGrad; }

Instruction::Kind KindOf(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return Instruction::FORWARD;
    case Pass::kBackward:
      return Instruction::BACKWARD;
    case Pass::kInputGrad:
      return Instruction::INPUT_GRAD;
    case Pass::kWeightGrad:
      return Instruction::WEIGHT_GRAD;
  }
  return Instruction::KIND_UNSPECIFIED;
}

// A node of a device: an item that is no message.
struct Node {
  WorkItem item;
  int slot = -1;  // -1: a collective on parameters or gradients
  Nanos start = 0, end = 0;
  int collective = -1;
};

class Ordering {
 public:
  Ordering(const PipelineLayout& layout, const Schedule& schedule, const WorkOptions& options,
           const CostModel& cost)
      : layout_(layout),
        schedule_(schedule),
        options_(options),
        cost_(cost),
        twins_(TwinStages(layout)),
        sharded_(ShardedStages(layout, options.shard, cost)),
        lanes_(schedule.num_devices()) {
    for (const StagePlacement& stage : layout.stages) {
      component_.push_back(BackboneComponent(cost, layout.chains[stage.chain].backbone));
      buckets_.push_back(
          options.shard == ShardPolicy::kStages
              ? std::vector<LayerRange>{stage.layers}
              : GradientBuckets(cost, component_.back(), stage.layers, options.bucket_bytes));
    }
    ranks_.assign(layout.stages.size(), 0);
    for (size_t s = 0; s < layout.stages.size(); ++s) {
      if (twins_[s] < 0) continue;
      ranks_[twins_[s]] +=
          layout.replicas[layout.stages[s].device] * layout.num_groups() * cost.num_groups();
    }
  }

  std::vector<std::vector<WorkItem>> Run() {
    for (int d = 0; d < schedule_.num_devices(); ++d) {
      AddNodes(d);
      AddGathers(d);
    }
    SetTimes();
    AddReductions();
    IndexSlots();
    AddMessages();
    return Emit(RecvPositions(positions_));
  }

 private:
  struct Position {
    int device = -1, node = -1;
  };

  bool IsReduced(int stage) const { return twins_[stage] >= 0 && ranks_[twins_[stage]] > 1; }
  bool IsLastOfStage(const Slot& slot) const {
    return slot.micro_batch ==
           layout_.chains[layout_.stages[slot.stage].chain].num_micro_batches - 1;
  }

  void AddNodes(int device);
  void AddPass(int device, int k, const Slot& slot);
  void AddGathers(int device);
  void SetTimes();
  Nanos TimeOf(const WorkItem& item) const;
  Nanos ReadyAt(const WorkItem& item) const;
  void AddReductions();
  void IndexSlots();
  void AddMessages();
  int WantedNode(int device, int slot, Nanos sent) const;
  void AddMessage(int from_stage, int to_stage, int micro_batch, bool activation);
  std::vector<std::vector<WorkItem>> Emit(const std::vector<int>& positions) const;

  const PipelineLayout& layout_;
  const Schedule& schedule_;
  const WorkOptions& options_;
  const CostModel& cost_;
  const std::vector<int> twins_;
  const std::vector<bool> sharded_;                     // by stage
  std::vector<int> component_;                          // by stage
  std::vector<std::vector<LayerRange>> buckets_;        // by stage
  std::vector<int> ranks_;                              // that sum gradients, by the first of twins
  std::vector<std::vector<Node>> lanes_;                // by device
  std::vector<std::vector<Nanos>> forward_, gradient_;  // ends, by stage and micro-batch
  std::vector<std::vector<int>> first_node_;            // by device and slot
  // The nodes that make and that read a micro-batch's values and gradients, by stage.
  std::vector<std::vector<Position>> makes_value_, reads_value_, makes_gradient_, reads_gradient_;
  Lanes positions_;
  std::vector<WorkItem> messages_;  // as sent, in the order of positions_
};

void Ordering::AddPass(int device, int k, const Slot& slot) {
  const StagePlacement& stage = layout_.stages[slot.stage];
  const auto add = [&](Instruction::Kind kind, bool in_parts) {
    // Buckets go from the back to the front.
    std::vector<LayerRange> parts = {stage.layers};
    if (in_parts) parts = buckets_[slot.stage];
    if (kind == Instruction::FORWARD || kind == Instruction::RECOMPUTE) {
      std::reverse(parts.begin(), parts.end());
    }
    for (const LayerRange& part : parts) {
      lanes_[device].push_back(
          {{kind, slot.stage, slot.micro_batch, part, -1, false}, k, 0, 0, -1});
    }
  };
  const bool sharded = sharded_[slot.stage];
  if (stage.recompute && GivesGradient(slot.pass)) add(Instruction::RECOMPUTE, sharded);
  const bool reduces_in_parts = options_.sync == SyncPolicy::kBucketed && AddsWeights(slot.pass) &&
                                IsReduced(slot.stage) && IsLastOfStage(slot);
  add(KindOf(slot.pass), sharded || reduces_in_parts);
}

// Around the passes of sharded stages. Both laps of a chain share what is gathered.
void Ordering::AddGathers(int device) {
  std::vector<Node> lane = std::move(lanes_[device]);
  std::map<std::pair<int, LayerRange>, int> numbers;  // by component and layers
  std::vector<int> parts;
  std::vector<size_t> passes;
  for (size_t n = 0; n < lane.size(); ++n) {
    const WorkItem& item = lane[n].item;
    if (!sharded_[item.stage] || item.kind == Instruction::LOAD_BATCH) continue;
    const int number = static_cast<int>(numbers.size());
    parts.push_back(
        numbers.emplace(std::make_pair(component_[item.stage], item.layers), number).first->second);
    passes.push_back(n);
  }
  const std::vector<PassGathers> gathers = GathersOf(parts, options_.gather == GatherPolicy::kOnce);
  lanes_[device].clear();
  size_t pass = 0;
  for (size_t n = 0; n < lane.size(); ++n) {
    const bool gathered = pass < passes.size() && passes[pass] == n;
    const auto add = [&](Instruction::Kind kind, const WorkItem& item) {
      lanes_[device].push_back({{kind, item.stage, -1, item.layers, -1, false}, -1, 0, 0, -1});
    };
    if (gathered) {
      for (int p : gathers[pass].before) add(Instruction::GATHER_PARAMS, lane[passes[p]].item);
    }
    lanes_[device].push_back(lane[n]);
    if (gathered && gathers[pass].release) add(Instruction::RELEASE_PARAMS, lane[n].item);
    pass += gathered;
  }
}

void Ordering::AddNodes(int device) {
  std::map<std::pair<int, int>, bool> loaded;  // by chain and micro-batch
  const std::vector<Slot>& slots = schedule_.slots(device);
  for (int k = 0; k < static_cast<int>(slots.size()); ++k) {
    const Slot& slot = slots[k];
    const StagePlacement& stage = layout_.stages[slot.stage];
    if (options_.load_cached && slot.pass == Pass::kForward &&
        !cost_.SourcesOf(component_[slot.stage], stage.layers).empty()) {
      bool& done = loaded[{stage.chain, slot.micro_batch}];
      if (!done) {
        lanes_[device].push_back(
            {{Instruction::LOAD_BATCH, slot.stage, slot.micro_batch, {}, -1, false}, k, 0, 0, -1});
      }
      done = true;
    }
    AddPass(device, k, slot);
  }
}

// At least 1, so that one pass is always before the next.
Nanos Ordering::TimeOf(const WorkItem& item) const {
  const StagePlacement& stage = layout_.stages[item.stage];
  const int batch = layout_.chains[stage.chain].micro_batch_size / layout_.replicas[stage.device];
  return std::max<Nanos>(1, cost_.PassTime(item.kind, component_[item.stage], item.layers, batch));
}

// When the data of a pass are there; kUnknown if that is not known yet.
Nanos Ordering::ReadyAt(const WorkItem& item) const {
  const int m = item.micro_batch;
  if (item.kind == Instruction::FORWARD) {
    const int previous = schedule_.Previous(item.stage);
    return previous < 0 ? 0 : forward_[previous][m];
  }
  const bool reads = PropagatesGradient(item.kind);
  const int next = schedule_.Next(item.stage);
  return reads && next >= 0 ? gradient_[next][m] : 0;
}

void Ordering::SetTimes() {
  for (const StagePlacement& stage : layout_.stages) {
    forward_.emplace_back(layout_.chains[stage.chain].num_micro_batches, kUnknown);
  }
  gradient_ = forward_;
  std::vector<size_t> next(lanes_.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t d = 0; d < lanes_.size(); ++d) {
      for (; next[d] < lanes_[d].size(); ++next[d]) {
        Node& node = lanes_[d][next[d]];
        const Nanos ready = ReadyAt(node.item);
        if (ready == kUnknown) break;
        node.start = std::max(ready, next[d] > 0 ? lanes_[d][next[d] - 1].end : 0);
        node.end = node.start + TimeOf(node.item);
        const WorkItem& item = node.item;
        if (item.kind == Instruction::FORWARD &&
            item.layers.end == layout_.stages[item.stage].layers.end) {
          forward_[item.stage][item.micro_batch] = node.end;
        }
        const bool gives = PropagatesGradient(item.kind);
        if (gives && item.layers.begin == layout_.stages[item.stage].layers.begin) {
          gradient_[item.stage][item.micro_batch] = node.end;
        }
        progress = true;
      }
    }
  }
}

void Ordering::AddReductions() {
  // When the last member has the gradients, by the first of the twins and layers.
  std::map<std::pair<int, LayerRange>, Nanos> ready;
  for (const std::vector<Node>& lane : lanes_) {
    for (const Node& node : lane) {
      const WorkItem& item = node.item;
      const bool adds = AddsWeightGrad(item.kind);
      if (!adds || !IsReduced(item.stage) ||
          !IsLastOfStage({Pass::kForward, item.micro_batch, item.stage})) {
        continue;
      }
      Nanos& time = ready[{twins_[item.stage], item.layers}];
      time = options_.sync == SyncPolicy::kEnd ? kAtTheEnd : std::max(time, node.end);
    }
  }
  std::vector<std::tuple<Nanos, int, int, LayerRange>> in_order;  // time, stage, -layer, layers
  for (const auto& [key, time] : ready) {
    in_order.emplace_back(time, key.first, -key.second.begin, key.second);
  }
  std::sort(in_order.begin(), in_order.end());
  std::vector<std::vector<Node>> reductions(lanes_.size());
  for (const auto& [time, first, layer, layers] : in_order) {
    Lanes::Collective members;
    for (size_t s = 0; s < twins_.size(); ++s) {
      if (twins_[s] != first) continue;
      const int device = layout_.stages[s].device;
      Node node{{Instruction::REDUCE_GRADS, static_cast<int>(s), -1, layers, -1, false},
                -1,
                time,
                time,
                static_cast<int>(positions_.collectives.size())};
      reductions[device].push_back(node);
      members.push_back({device, 0});
    }
    positions_.collectives.push_back(std::move(members));
  }
  for (size_t d = 0; d < lanes_.size(); ++d) {
    std::vector<Node> merged;
    // Before what starts at the same time: its gradients are those of what ended then.
    std::merge(reductions[d].begin(), reductions[d].end(), lanes_[d].begin(), lanes_[d].end(),
               std::back_inserter(merged),
               [](const Node& a, const Node& b) { return a.start < b.start; });
    lanes_[d] = std::move(merged);
  }
}

void Ordering::IndexSlots() {
  first_node_.resize(lanes_.size());
  makes_value_.resize(layout_.stages.size());
  for (size_t s = 0; s < layout_.stages.size(); ++s) {
    makes_value_[s].resize(forward_[s].size());
  }
  reads_value_ = makes_gradient_ = reads_gradient_ = makes_value_;
  for (int d = 0; d < static_cast<int>(lanes_.size()); ++d) {
    first_node_[d].assign(schedule_.slots(d).size(), -1);
    std::vector<Nanos>& starts = positions_.start.emplace_back();
    for (int n = 0; n < static_cast<int>(lanes_[d].size()); ++n) {
      const Node& node = lanes_[d][n];
      const WorkItem& item = node.item;
      starts.push_back(node.start);
      if (node.collective >= 0) {
        for (auto& [device, at] : positions_.collectives[node.collective]) {
          if (device == d) at = n;
        }
        continue;
      }
      if (node.slot < 0) continue;
      if (first_node_[d][node.slot] < 0) first_node_[d][node.slot] = n;
      if (item.kind == Instruction::FORWARD) {
        Position& reads = reads_value_[item.stage][item.micro_batch];
        if (reads.node < 0) reads = {d, n};
        makes_value_[item.stage][item.micro_batch] = {d, n};
      }
      if (PropagatesGradient(item.kind)) {
        Position& reads = reads_gradient_[item.stage][item.micro_batch];
        if (reads.node < 0) reads = {d, n};
        makes_gradient_[item.stage][item.micro_batch] = {d, n};
      }
    }
  }
}

// Where a message of that slot is asked for: at most that many slots ahead, but, more than one slot
// ahead, no sooner than before what its device runs when it is sent. Asked for sooner it would gain
// nothing, and keep others from being asked for in time (recv_positions.h).
int Ordering::WantedNode(int device, int slot, Nanos sent) const {
  const std::vector<int>& first_node = first_node_[device];
  const int wanted = first_node[std::max(0, slot - std::max(0, options_.recv_lookahead))];
  if (options_.recv_lookahead <= 1) return wanted;
  const std::vector<Nanos>& starts = positions_.start[device];
  const auto next = std::upper_bound(starts.begin(), starts.end(), sent);
  const int running = static_cast<int>(next - starts.begin()) - 1;
  return std::max(wanted, std::min(running, first_node[std::max(0, slot - 1)]));
}

void Ordering::AddMessage(int from_stage, int to_stage, int micro_batch, bool activation) {
  const Position made = (activation ? makes_value_ : makes_gradient_)[from_stage][micro_batch];
  const Position read = (activation ? reads_value_ : reads_gradient_)[to_stage][micro_batch];
  const int slot = lanes_[read.device][read.node].slot;
  Lanes::Message message;
  message.from = made.device;
  message.to = read.device;
  const std::vector<Node>& lane = lanes_[made.device];
  message.after = made.node;
  message.sent = lane[made.node].end;
  // Past reductions that could begin while the pass ran.
  while (message.after + 1 < static_cast<int>(lane.size()) &&
         lane[message.after + 1].collective >= 0 && lane[message.after + 1].start < message.sent) {
    ++message.after;
  }
  message.wanted = WantedNode(read.device, slot, message.sent);
  message.first = activation;
  positions_.messages.push_back(message);
  messages_.push_back({Instruction::SEND, from_stage, micro_batch, {}, to_stage, activation});
}

// Device by device in the order in which they are sent, as links need it.
void Ordering::AddMessages() {
  for (const std::vector<Node>& lane : lanes_) {
    for (const Node& node : lane) {
      const WorkItem& item = node.item;
      if (item.kind == Instruction::FORWARD &&
          item.layers.end == layout_.stages[item.stage].layers.end) {
        const int next = schedule_.Next(item.stage);
        if (next >= 0 && schedule_.DeviceOf(next) != schedule_.DeviceOf(item.stage)) {
          AddMessage(item.stage, next, item.micro_batch, true);
        }
      }
      const bool gives = PropagatesGradient(item.kind);
      if (!gives || item.layers.begin != layout_.stages[item.stage].layers.begin) continue;
      const int previous = schedule_.Previous(item.stage);
      if (previous < 0 || schedule_.IsForwardOnly(previous) ||
          schedule_.DeviceOf(previous) == schedule_.DeviceOf(item.stage)) {
        continue;
      }
      AddMessage(item.stage, previous, item.micro_batch, false);
    }
  }
}

std::vector<std::vector<WorkItem>> Ordering::Emit(const std::vector<int>& positions) const {
  const int count = static_cast<int>(messages_.size());
  std::vector<int> by_time(count);
  for (int m = 0; m < count; ++m) by_time[m] = m;
  std::stable_sort(by_time.begin(), by_time.end(), [this](int a, int b) {
    return positions_.messages[a].sent < positions_.messages[b].sent;
  });
  std::vector<std::vector<std::vector<int>>> before(lanes_.size()), after(lanes_.size());
  for (size_t d = 0; d < lanes_.size(); ++d) {
    before[d].resize(lanes_[d].size());
    after[d].resize(lanes_[d].size());
  }
  for (int m : by_time) {
    const Lanes::Message& message = positions_.messages[m];
    before[message.to][positions[m]].push_back(m);
    after[message.from][message.after].push_back(m);
  }
  std::vector<std::vector<WorkItem>> items(lanes_.size());
  for (size_t d = 0; d < lanes_.size(); ++d) {
    for (size_t n = 0; n < lanes_[d].size(); ++n) {
      for (int m : before[d][n]) {
        WorkItem recv = messages_[m];
        recv.kind = Instruction::RECV;
        std::swap(recv.stage, recv.peer_stage);
        items[d].push_back(recv);
      }
      items[d].push_back(lanes_[d][n].item);
      for (int m : after[d][n]) items[d].push_back(messages_[m]);
    }
  }
  return items;
}

}  // namespace

std::vector<std::vector<WorkItem>> OrderWork(const PipelineLayout& layout, const Schedule& schedule,
                                             const WorkOptions& options, const CostModel& cost) {
  return Ordering(layout, schedule, options, cost).Run();
}

std::vector<bool> ShardedStages(const PipelineLayout& layout, ShardPolicy shard,
                                const CostModel& cost) {
  std::vector<bool> sharded;
  for (const StagePlacement& stage : layout.stages) {
    sharded.push_back(shard != ShardPolicy::kNone &&
                      layout.replicas[stage.device] * layout.num_groups() * cost.num_groups() > 1);
  }
  return sharded;
}

}  // namespace dpipe
