#include "core/planner/costs/memory_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/status/statusor.h"
#include "core/planner/pipeline/pipeline_schedule.h"
#include "core/schedule/schedule.h"
#include "core/schedule/schedule_traits.h"

namespace dpipe {
namespace {

constexpr int kMaxDevices = 16;
// With more micro-batches per device than this, only GPipe keeps more of them.
constexpr int kMaxMicroBatchesPerDevice = 3;

// Returns the minimum number of neighbours to merge so that at most kMaxDevices are left.
int NeighboursOf(int num_devices) {
  for (int each = 1; each < num_devices; ++each) {
    if (num_devices % each == 0 && num_devices / each <= kMaxDevices) return each;
  }
  return num_devices;
}

// Returns the maximum number of micro-batches, up to `most`, that the schedule supports; 0 if none.
int MicroBatchesAtMost(int most, const PipelineShape& shape) {
  const absl::StatusOr<ScheduleTraits> traits = TraitsOf(shape.schedule);
  ScheduleRequest request;
  request.num_devices = shape.num_stages;
  request.stages_per_device = shape.stages_per_device;
  for (int count = most; count > 0 && traits.ok(); --count) {
    request.num_micro_batches = count;
    if (CheckRequest(shape.schedule, *traits, request).ok()) return count;
  }
  return 0;
}

// Returns, by stage of the schedule, how many micro-batches it keeps when its device keeps the
// most.
std::vector<int> KeptOf(const Schedule& schedule) {
  std::vector<int> kept(schedule.num_stages(), 0);
  for (int d = 0; d < schedule.num_devices(); ++d) {
    std::vector<int> now(schedule.num_stages(), 0), most = now;
    int sum = 0, largest = 0;
    for (const Slot& slot : schedule.slots(d)) {
      if (schedule.IsForwardOnly(slot.stage) || slot.pass == Pass::kInputGrad) continue;
      const int change = slot.pass == Pass::kForward ? 1 : -1;
      now[slot.stage] += change;
      sum += change;
      if (sum <= largest) continue;
      largest = sum;
      most = now;
    }
    for (int s = 0; s < schedule.num_stages(); ++s) kept[s] += most[s];
  }
  return kept;
}

}  // namespace

MemoryBound::MemoryBound(const CostModel& cost) {
  for (int r = 0; r < cost.num_devices(); ++r) {
    const auto limit = static_cast<double>(cost.MemoryLimitOf(r));
    if (limit == 0) {
      limit_ = 0;
      break;
    }
    limit_ = std::max(limit_, limit);
  }
  smallest_saved_ = std::numeric_limits<double>::max();
  for (int backbone : cost.backbones()) {
    std::vector<Layer>& layers = layers_.emplace_back();
    Layer& total = totals_.emplace_back();
    for (int l = 0; l < cost.num_layers(backbone); ++l) {
      layers.push_back({static_cast<double>(cost.StateBytes(backbone, {l, l + 1})),
                        static_cast<double>(cost.FrozenStateBytes(backbone, {l, l + 1})),
                        static_cast<double>(cost.SavedBytesPerSample(backbone, {l, l + 1}))});
      total.state += layers.back().state;
      total.frozen += layers.back().frozen;
      total.saved += layers.back().saved;
      smallest_saved_ = std::min(smallest_saved_, layers.back().saved);
    }
  }
}

const std::optional<MemoryBound::Structure>& MemoryBound::StructureOf(const PipelineShape& shape) {
  PipelineShape small = shape;
  const int each = NeighboursOf(shape.num_stages);
  small.num_stages /= each;
  small.peak_limit = shape.peak_limit / each;
  const int all = std::max(1, shape.num_micro_batches / each);
  small.num_micro_batches =
      MicroBatchesAtMost(std::min(all, kMaxMicroBatchesPerDevice * small.num_stages), small);
  const bool grows = shape.schedule == "gpipe";
  const auto [at, added] = structures_.try_emplace(
      Key{shape.schedule, shape.num_stages, small.num_micro_batches, shape.stages_per_device,
          small.peak_limit, grows ? shape.num_micro_batches : 0});
  if (added) at->second = ReadSchedule(small, each, shape.num_micro_batches);
  return at->second;
}

std::optional<MemoryBound::Structure> MemoryBound::ReadSchedule(const PipelineShape& small,
                                                                int each,
                                                                int num_micro_batches) const {
  PipelineScheduleOptions options;
  options.num_backbones = static_cast<int>(layers_.size());
  PipelineShape made = small;
  made.num_micro_batches = std::max(1, small.num_micro_batches);
  const absl::StatusOr<Schedule> schedule = MakePipelineSchedule(made, options);
  if (!schedule.ok()) return std::nullopt;
  Structure structure;
  structure.num_devices = schedule->num_devices();
  structure.each = each;
  structure.splits = BlocksInFlight(*schedule) == 0;
  structure.stages.resize(layers_.size());
  const std::vector<int> kept = KeptOf(*schedule);
  std::vector<int> on_device(schedule->num_devices(), 0);
  for (int s = 0; s < schedule->num_stages(); ++s) {
    if (!schedule->IsForwardOnly(s)) ++on_device[schedule->DeviceOf(s)];
  }
  for (size_t c = 0; c < schedule->chains().size(); ++c) {
    const ScheduleChain& chain = schedule->chains()[c];
    auto& stages = structure.stages[chain.backbone];
    const int count = static_cast<int>(chain.devices.size()) - chain.num_forward_only;
    stages.resize(count);
    for (int k = 0; k < count; ++k) {
      const int stage = schedule->FirstStageOf(c) + chain.num_forward_only + k;
      Copy copy;
      copy.device = schedule->DeviceOf(stage);
      // Of the devices that this one represents, the one that keeps the least keeps one micro-batch
      // more than all those together that the next one represents keep.
      copy.kept = kept[stage] > 0 ? (kept[stage] - 1) * each + 1 : 0;
      if (made.schedule == "gpipe") copy.kept = num_micro_batches;
      copy.recomputed = std::min(copy.kept, 1.0 / on_device[copy.device]);
      stages[k].push_back(copy);
    }
  }
  return structure;
}

std::optional<double> MemoryBound::ShareOf(const PipelineShape& shape, const FrozenBytes& frozen,
                                           bool recomputes, bool stages_choose_ranks,
                                           bool in_blocks) {
  if (limit_ == 0) return 0;
  const std::optional<Structure>& structure = StructureOf(shape);
  if (!structure) return std::nullopt;
  const int devices = structure->num_devices;
  const int replicas =
      stages_choose_ranks ? shape.devices_per_pipeline - shape.num_stages + 1 : shape.replicas();
  const double samples = static_cast<double>(shape.micro_batch_size()) / replicas;
  const double shards =
      shape.shards_state() ? static_cast<double>(replicas) * shape.num_groups() : 1;
  // Of a layer or a sum of layers, on one rank.
  const bool keeps_frozen = shape.sharding == Sharding::kZero1;
  const auto state_of = [&](const Layer& layer) {
    const double kept = keeps_frozen ? layer.frozen : 0;
    return kept + (layer.state - kept) / shards;
  };
  const bool restores_layers = recomputes && in_blocks && !structure->splits;
  const auto kept = [&](const Copy& copy) {
    return samples * (restores_layers ? 0 : recomputes ? copy.recomputed : copy.kept);
  };
  std::vector<double> weight(devices, 0);
  for (size_t b = 0; b < layers_.size(); ++b) {
    const auto parts = static_cast<double>(structure->stages[b].size());
    for (const std::vector<Copy>& copies : structure->stages[b]) {
      for (const Copy& copy : copies) {
        weight[copy.device] += (state_of(totals_[b]) + kept(copy) * totals_[b].saved) / parts;
      }
    }
  }
  double sum = 0;
  for (double& w : weight) sum += w = 1 / std::max(1.0, w);
  double bytes = static_cast<double>(frozen.everywhere);
  if (restores_layers) bytes += samples * smallest_saved_;
  for (int d = 0; d < devices; ++d) {
    weight[d] /= sum;
    if (shape.IsFrozenHost(d * structure->each)) {
      bytes += weight[d] * static_cast<double>(frozen.hosted);
    }
  }
  // `prices` holds, by stage, the weight of a byte of state and of a saved byte per sample.
  const auto total_of = [&](const std::vector<std::vector<Layer>>& layers) {
    double total = bytes;
    std::vector<std::pair<double, double>> prices;
    for (size_t b = 0; b < layers.size(); ++b) {
      prices.clear();
      for (const std::vector<Copy>& copies : structure->stages[b]) {
        std::pair<double, double>& price = prices.emplace_back(0, 0);
        for (const Copy& copy : copies) {
          price.first += weight[copy.device] / structure->each;
          price.second += weight[copy.device] * kept(copy) / structure->each;
        }
      }
      for (const Layer& layer : layers[b]) {
        double least = std::numeric_limits<double>::max();
        for (const auto& [state, saved] : prices) {
          least = std::min(least, state * state_of(layer) + saved * layer.saved);
        }
        total += least;
      }
    }
    return total / limit_;
  };
  // Merged layers all go to one stage, so this is no smaller.
  std::vector<std::vector<Layer>> merged;
  for (const Layer& total : totals_) merged.push_back({total});
  const double share = total_of(merged);
  return share <= 1 ? share : total_of(layers_);
}

}  // namespace dpipe
