#include "core/schedule/lowering/work_timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/proto/instruction_parts.h"
#include "core/schedule/messages/gradient_buckets.h"
#include "core/schedule/messages/param_gathers.h"
#include "core/schedule/placement/weight_groups.h"

namespace dpipe {
namespace {

constexpr Nanos kUnknown = -1;
constexpr Nanos kAtTheEnd = std::numeric_limits<Nanos>::max() / 2;

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

class Timing {
 public:
  Timing(const PipelineLayout& layout, const Schedule& schedule, const WorkOptions& options,
         const CostModel& cost)
      : layout_(layout),
        schedule_(schedule),
        options_(options),
        cost_(cost),
        weights_(layout),
        sharded_(ShardedStages(layout, options.shard, cost)),
        lanes_(schedule.num_devices()) {
    for (const StagePlacement& stage : layout.stages) {
      component_.push_back(BackboneComponent(cost, layout.chains[stage.chain].backbone));
      const int s = static_cast<int>(parts_.size());
      parts_.push_back(MakeParts(s));
      reduced_.push_back(JoinToBuckets(parts_[s], options.bucket_bytes, [&](LayerRange layers) {
        return cost.GradientBytes(component_[s], layers);
      }));
    }
  }

  WorkTimeline Run() {
    for (int d = 0; d < schedule_.num_devices(); ++d) {
      AddNodes(d);
      AddGathers(d);
    }
    SetTimes();
    AddReductions();
    return {std::move(lanes_), std::move(collectives_)};
  }

 private:
  bool IsReduced(int stage) const {
    const size_t num_ranks = weights_.GroupOf(stage).ranks.size() * cost_.num_groups();
    return !layout_.stages[stage].forward_only && num_ranks > 1;
  }
  bool IsLastOfStage(const Slot& slot) const {
    return slot.micro_batch ==
           layout_.chains[layout_.stages[slot.stage].chain].num_micro_batches - 1;
  }

  std::vector<LayerRange> MakeParts(int stage) const;
  LayerRange PartOf(const WorkItem& item) const;  // the one that contains its first layer
  void AddNodes(int device);
  void AddPass(int device, int k, const Slot& slot);
  void AddGathers(int device);
  void SetTimes();
  Nanos TimeOf(const WorkItem& item) const;
  Nanos ReadyAt(const WorkItem& item) const;
  void AddReductions();

  const PipelineLayout& layout_;
  const Schedule& schedule_;
  const WorkOptions& options_;
  const CostModel& cost_;
  const WeightGroups weights_;
  const std::vector<bool> sharded_;  // by stage
  std::vector<int> component_;       // by stage
  // By stage, from the last layers to the first: what is gathered, or reduced, at once.
  std::vector<std::vector<LayerRange>> parts_, reduced_;
  std::vector<std::vector<TimedWork>> lanes_;           // by device
  std::vector<std::vector<Nanos>> forward_, gradient_;  // ends, by stage and micro-batch
  std::vector<std::vector<int>> collectives_;           // the devices of each reduction
};

void Timing::AddNodes(int device) {
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

std::vector<LayerRange> Timing::MakeParts(int stage) const {
  const LayerRange layers = layout_.stages[stage].layers;
  const bool whole =
      sharded_[stage] ? options_.shard == ShardPolicy::kStages : options_.sync == SyncPolicy::kEnd;
  if (whole) return {layers};
  // Small gradients of large weights would make one large bucket of them.
  const bool gathers_all = sharded_[stage] && options_.gather == GatherPolicy::kPassByPass;
  const auto buckets = gathers_all ? WeightBuckets : GradientBuckets;
  return buckets(cost_, component_[stage], layers, options_.bucket_bytes);
}

LayerRange Timing::PartOf(const WorkItem& item) const {
  const std::vector<LayerRange>& parts = parts_[item.stage];
  return *std::find_if(parts.begin(), parts.end(), [&item](const LayerRange& part) {
    return part.Contains(item.layers.begin);
  });
}

void Timing::AddPass(int device, int k, const Slot& slot) {
  const StagePlacement& stage = layout_.stages[slot.stage];
  const auto add = [&](Instruction::Kind kind, LayerRange layers, bool in_parts) {
    std::vector<LayerRange> parts;
    for (const LayerRange& part : parts_[slot.stage]) {
      if (in_parts && !part.Intersect(layers).empty()) parts.push_back(part.Intersect(layers));
    }
    if (!in_parts) parts = {layers};
    if (kind == Instruction::FORWARD || kind == Instruction::RECOMPUTE) {
      std::reverse(parts.begin(), parts.end());
    }
    for (const LayerRange& part : parts) {
      lanes_[device].push_back(
          {{kind, slot.stage, slot.micro_batch, part, -1, false}, k, 0, 0, -1});
    }
  };
  const bool sharded = sharded_[slot.stage];
  const bool reduces_in_parts = options_.sync == SyncPolicy::kBucketed &&
                                ComputesWeightGrad(slot.pass) && IsReduced(slot.stage) &&
                                IsLastOfStage(slot);
  const bool in_parts = sharded || reduces_in_parts;
  if (!stage.recompute || !ComputesInputGrad(slot.pass)) {
    return add(KindOf(slot.pass), stage.layers, in_parts);
  }
  const std::vector<LayerRange> blocks = BlocksOf(stage.layers, stage.recompute_cuts);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    add(Instruction::RECOMPUTE, *block, sharded);
    add(KindOf(slot.pass), *block, in_parts);
  }
}

// Adds gathers and releases around the passes of sharded stages. Both laps of a chain share the
// gathered parameters. A pass over a block may need only some layers of a part.
void Timing::AddGathers(int device) {
  std::vector<TimedWork> lane = std::move(lanes_[device]);
  std::map<std::pair<int, LayerRange>, int> numbers;  // by component and layers
  std::vector<int> parts;
  std::vector<size_t> passes;
  for (size_t n = 0; n < lane.size(); ++n) {
    const WorkItem& item = lane[n].item;
    if (!sharded_[item.stage] || item.kind == Instruction::LOAD_BATCH) continue;
    const int number = static_cast<int>(numbers.size());
    const auto [entry, added] =
        numbers.emplace(std::make_pair(component_[item.stage], PartOf(item)), number);
    parts.push_back(entry->second);
    passes.push_back(n);
  }
  const std::vector<PassGathers> gathers =
      PlanGathers(parts, options_.gather == GatherPolicy::kOnce);
  lanes_[device].clear();
  size_t pass = 0;
  for (size_t n = 0; n < lane.size(); ++n) {
    const bool gathered = pass < passes.size() && passes[pass] == n;
    const auto add = [&](Instruction::Kind kind, const WorkItem& item) {
      lanes_[device].push_back({{kind, item.stage, -1, PartOf(item), -1, false}, -1, 0, 0, -1});
    };
    if (gathered) {
      for (int p : gathers[pass].before) add(Instruction::GATHER_PARAMS, lane[passes[p]].item);
    }
    lanes_[device].push_back(lane[n]);
    if (gathered && gathers[pass].release) add(Instruction::RELEASE_PARAMS, lane[n].item);
    pass += gathered;
  }
}

// Returns the duration of an item. At least 1, so that one pass is always before the next.
Nanos Timing::TimeOf(const WorkItem& item) const {
  const StagePlacement& stage = layout_.stages[item.stage];
  const int batch = layout_.chains[stage.chain].micro_batch_size / layout_.replicas[stage.device];
  return std::max<Nanos>(1, cost_.PassTime(item.kind, component_[item.stage], item.layers, batch));
}

// Returns when the inputs of a pass are ready; kUnknown if that is unknown so far.
Nanos Timing::ReadyAt(const WorkItem& item) const {
  const int m = item.micro_batch;
  if (item.kind == Instruction::FORWARD) {
    const int previous = schedule_.Previous(item.stage);
    return previous < 0 ? 0 : forward_[previous][m];
  }
  const bool reads = ComputesInputGrad(item.kind);
  const int next = schedule_.Next(item.stage);
  return reads && next >= 0 ? gradient_[next][m] : 0;
}

void Timing::SetTimes() {
  for (const StagePlacement& stage : layout_.stages) {
    forward_.emplace_back(layout_.chains[stage.chain].num_micro_batches, kUnknown);
  }
  gradient_ = forward_;
  std::vector<size_t> next(lanes_.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t d = 0; d < lanes_.size(); ++d) {
      for (; next[d] < lanes_[d].size(); ++next[d]) {
        TimedWork& node = lanes_[d][next[d]];
        const Nanos ready = ReadyAt(node.item);
        if (ready == kUnknown) break;
        node.start = std::max(ready, next[d] > 0 ? lanes_[d][next[d] - 1].end : 0);
        node.end = node.start + TimeOf(node.item);
        const WorkItem& item = node.item;
        if (item.kind == Instruction::FORWARD &&
            item.layers.end == layout_.stages[item.stage].layers.end) {
          forward_[item.stage][item.micro_batch] = node.end;
        }
        const bool gives = ComputesInputGrad(item.kind);
        if (gives && item.layers.begin == layout_.stages[item.stage].layers.begin) {
          gradient_[item.stage][item.micro_batch] = node.end;
        }
        progress = true;
      }
    }
  }
}

void Timing::AddReductions() {
  // By weight group, layers and micro-batch (-1: the last one, with the sum over all): when the
  // last member has the gradients.
  std::map<std::tuple<int, LayerRange, int>, Nanos> ready;
  for (const std::vector<TimedWork>& lane : lanes_) {
    for (const TimedWork& node : lane) {
      const WorkItem& item = node.item;
      if (!ComputesWeightGrad(item.kind) || !IsReduced(item.stage)) continue;
      const bool each = options_.reduce_each_micro_batch && sharded_[item.stage];
      if (!each && !IsLastOfStage({Pass::kForward, item.micro_batch, item.stage})) continue;
      const bool at_the_end = !each && options_.sync == SyncPolicy::kEnd;
      for (const LayerRange& part : reduced_[item.stage]) {
        if (part.Intersect(item.layers).empty()) continue;
        Nanos& time = ready[{weights_.OfStage(item.stage), part, each ? item.micro_batch : -1}];
        time = at_the_end ? kAtTheEnd : std::max(time, node.end);
      }
    }
  }
  std::vector<std::tuple<Nanos, int, int, LayerRange>> in_order;  // time, group, -layer, layers
  for (const auto& [key, time] : ready) {
    const auto& [group, layers, micro_batch] = key;
    in_order.emplace_back(time, group, -layers.begin, layers);
  }
  std::sort(in_order.begin(), in_order.end());
  std::vector<std::vector<TimedWork>> reductions(lanes_.size());
  for (const auto& [time, group, layer, layers] : in_order) {
    std::vector<int> members;
    for (int s : weights_.group(group).stages) {
      const int device = layout_.stages[s].device;
      TimedWork node{{Instruction::REDUCE_GRADS, s, -1, layers, -1, false},
                     -1,
                     time,
                     time,
                     static_cast<int>(collectives_.size())};
      reductions[device].push_back(node);
      members.push_back(device);
    }
    collectives_.push_back(std::move(members));
  }
  for (size_t d = 0; d < lanes_.size(); ++d) {
    std::vector<TimedWork> merged;
    // A reduction comes before what starts at the same time: the passes that have just ended made
    // its gradients.
    std::merge(reductions[d].begin(), reductions[d].end(), lanes_[d].begin(), lanes_[d].end(),
               std::back_inserter(merged),
               [](const TimedWork& a, const TimedWork& b) { return a.start < b.start; });
    lanes_[d] = std::move(merged);
  }
}

}  // namespace

WorkTimeline TimeWork(const PipelineLayout& layout, const Schedule& schedule,
                      const WorkOptions& options, const CostModel& cost) {
  return Timing(layout, schedule, options, cost).Run();
}

}  // namespace dpipe
