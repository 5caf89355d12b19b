#include "core/schedule/lowering/work_order.h"

#include <algorithm>
#include <utility>

#include "core/proto/instruction_parts.h"
#include "core/schedule/lowering/work_timeline.h"
#include "core/schedule/messages/recv_positions.h"

namespace dpipe {
namespace {

// Places messages among the work of a timeline.
class MessagePlacing {
 public:
  MessagePlacing(const PipelineLayout& layout, const Schedule& schedule, const WorkOptions& options,
                 WorkTimeline timeline)
      : layout_(layout), schedule_(schedule), options_(options), lanes_(std::move(timeline.lanes)) {
    for (const std::vector<int>& devices : timeline.collectives) {
      Lanes::Collective& members = positions_.collectives.emplace_back();
      for (int device : devices) members.push_back({device, 0});
    }
  }

  std::vector<std::vector<WorkItem>> Run() {
    IndexSlots();
    AddMessages();
    return Emit(RecvPositions(positions_));
  }

 private:
  struct Position {
    int device = -1, node = -1;
  };

  void IndexSlots();
  void AddMessages();
  int WantedNode(int device, int slot, Nanos sent) const;
  void AddMessage(int from_stage, int to_stage, int micro_batch, bool activation);
  std::vector<std::vector<WorkItem>> Emit(const std::vector<int>& positions) const;

  const PipelineLayout& layout_;
  const Schedule& schedule_;
  const WorkOptions& options_;
  const std::vector<std::vector<TimedWork>> lanes_;  // by device
  std::vector<std::vector<int>> first_node_;         // by device and slot
  // By stage and micro-batch: the nodes that make and that read its values and gradients.
  std::vector<std::vector<Position>> makes_value_, reads_value_, makes_gradient_, reads_gradient_;
  Lanes positions_;
  std::vector<WorkItem> messages_;  // as SENDs, in the order of positions_.messages
};

void MessagePlacing::IndexSlots() {
  first_node_.resize(lanes_.size());
  makes_value_.resize(layout_.stages.size());
  for (size_t s = 0; s < layout_.stages.size(); ++s) {
    makes_value_[s].resize(layout_.chains[layout_.stages[s].chain].num_micro_batches);
  }
  reads_value_ = makes_gradient_ = reads_gradient_ = makes_value_;
  for (int d = 0; d < static_cast<int>(lanes_.size()); ++d) {
    first_node_[d].assign(schedule_.slots(d).size(), -1);
    std::vector<Nanos>& starts = positions_.start.emplace_back();
    for (int n = 0; n < static_cast<int>(lanes_[d].size()); ++n) {
      const TimedWork& node = lanes_[d][n];
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
      if (ComputesInputGrad(item.kind)) {
        Position& reads = reads_gradient_[item.stage][item.micro_batch];
        if (reads.node < 0) reads = {d, n};
        makes_gradient_[item.stage][item.micro_batch] = {d, n};
      }
    }
  }
}

// Returns the preferred node for the receive of a message that `slot` reads: `recv_lookahead` slots
// ahead. If that is more than one, then no earlier than the node that the device runs when the
// message is sent: an earlier receive gains nothing, and delays others (recv_positions.h).
int MessagePlacing::WantedNode(int device, int slot, Nanos sent) const {
  const std::vector<int>& first_node = first_node_[device];
  const int wanted = first_node[std::max(0, slot - std::max(0, options_.recv_lookahead))];
  if (options_.recv_lookahead <= 1) return wanted;
  const std::vector<Nanos>& starts = positions_.start[device];
  const auto next = std::upper_bound(starts.begin(), starts.end(), sent);
  const int running = static_cast<int>(next - starts.begin()) - 1;
  return std::max(wanted, std::min(running, first_node[std::max(0, slot - 1)]));
}

void MessagePlacing::AddMessage(int from_stage, int to_stage, int micro_batch, bool activation) {
  const Position made = (activation ? makes_value_ : makes_gradient_)[from_stage][micro_batch];
  const Position read = (activation ? reads_value_ : reads_gradient_)[to_stage][micro_batch];
  const int slot = lanes_[read.device][read.node].slot;
  Lanes::Message message;
  message.from = made.device;
  message.to = read.device;
  const std::vector<TimedWork>& lane = lanes_[made.device];
  message.after = made.node;
  message.sent = lane[made.node].end;
  // Send after reductions that could start while the pass ran.
  while (message.after + 1 < static_cast<int>(lane.size()) &&
         lane[message.after + 1].collective >= 0 && lane[message.after + 1].start < message.sent) {
    ++message.after;
  }
  message.wanted = WantedNode(read.device, slot, message.sent);
  message.first = activation;
  positions_.messages.push_back(message);
  messages_.push_back({Instruction::SEND, from_stage, micro_batch, {}, to_stage, activation});
}

// Adds messages device by device in the order in which they are sent, as Lanes::messages requires.
void MessagePlacing::AddMessages() {
  for (const std::vector<TimedWork>& lane : lanes_) {
    for (const TimedWork& node : lane) {
      const WorkItem& item = node.item;
      if (item.kind == Instruction::FORWARD &&
          item.layers.end == layout_.stages[item.stage].layers.end) {
        const int next = schedule_.Next(item.stage);
        if (next >= 0 && schedule_.DeviceOf(next) != schedule_.DeviceOf(item.stage)) {
          AddMessage(item.stage, next, item.micro_batch, true);
        }
      }
      const bool gives = ComputesInputGrad(item.kind);
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

std::vector<std::vector<WorkItem>> MessagePlacing::Emit(const std::vector<int>& positions) const {
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
  return MessagePlacing(layout, schedule, options, TimeWork(layout, schedule, options, cost)).Run();
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
