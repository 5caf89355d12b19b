#include "core/planner/fill/fill.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/planner/fill/fill_memory.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/greedy/assign.h"
#include "core/planner/fill/greedy/pack.h"
#include "core/planner/fill/idle_intervals.h"

namespace dpipe {
namespace {

// A rank's gaps and the positions of the compute instructions that end them.
struct RankGaps {
  DeviceGaps device;
  std::vector<int> positions;  // by gap, then the position of the optimizer step
};

RankGaps GapsOfRank(const Plan& plan, const std::vector<IdleInterval>& idle, int rank,
                    const GapScale& scale) {
  const std::vector<int> compute = ComputeInstructions(plan.devices(rank));
  RankGaps gaps;
  gaps.device.speed = scale.speed;
  for (const IdleInterval& interval : idle) {
    gaps.positions.push_back(static_cast<int>(
        std::lower_bound(compute.begin(), compute.end(), interval.instruction) - compute.begin()));
    if (&interval == &idle.back()) {
      gaps.device.end_ns = interval.start_ns;
      gaps.device.optimizer_ns = interval.end_ns;
    } else {
      gaps.device.gaps.push_back(scale(interval.length_ns()));
    }
  }
  return gaps;
}

// Appends the instructions of one placement. Unit 0 begins at `first_sample`.
void AppendItems(const FrozenWork& work, const Placement& placement, int rank, int position,
                 int first_sample, std::vector<FillItem>& items) {
  const Chain& chain = work.chains[placement.chain];
  FillItem item;
  item.rank = rank;
  item.position = position;
  item.samples = {first_sample + placement.unit_begin * work.quantum,
                  first_sample + placement.unit_end * work.quantum};
  item.step_offset = 1;
  for (int s = placement.step_begin; s < placement.step_end; ++s) {
    const WorkStep& step = chain.steps[s];
    if (s > placement.step_begin && !step.new_instruction) {
      items.back().layers.end = step.layer + 1;
      continue;
    }
    item.load = step.layer == kLoadStep;
    item.component = step.component;
    item.layers = item.load ? LayerRange{} : LayerRange{step.layer, step.layer + 1};
    items.push_back(item);
  }
}

// Places the work of pipeline groups, one group per call of FillGroup.
class Filler {
 public:
  Filler(const Plan& unfilled, const FrozenWork& work, const FillOptions& options,
         const CostModel& cost)
      : work_(work), options_(options), cost_(cost) {
    for (int r = 0; r < unfilled.num_devices() && memory_ == nullptr; ++r) {
      if (cost.MemoryLimitOf(r) > 0) memory_ = std::make_unique<FillMemory>(unfilled, cost);
    }
    assign_.pack.partial_batch = options.partial_batch;
    assign_.pack.one_partial = options.one_partial;
    if (options.beam_width > 0) assign_.pack.beam_width = options.beam_width;
    assign_.pack.min_gap_ns = options.min_bubble_ns > 0
                                  ? options.min_bubble_ns
                                  : static_cast<Nanos>(cost.profile().launch_overhead_ns());
    assign_.even_samples = options.even_samples;
  }

  absl::Status FillGroup(const std::vector<RankGaps>& ranks, int first_rank, int first_sample,
                         std::vector<FillItem>& items) {
    std::vector<DeviceGaps> devices;
    for (size_t d = 0; d < ranks.size(); ++d) {
      devices.push_back(ranks[d].device);
      if (!options_.hosts.empty() && !options_.hosts[d]) KeepHeavyAway(&devices.back());
    }
    std::vector<std::vector<FillItem>> by_rank;
    for (int round = 0; round < kMemoryRounds; ++round) {
      DPIPE_RETURN_IF_ERROR(Assign(devices));
      by_rank = ItemsOf(ranks, first_rank, first_sample);
      if (!Tighten(by_rank, first_rank, devices)) break;
    }
    for (const std::vector<FillItem>& of_rank : by_rank) {
      items.insert(items.end(), of_rank.begin(), of_rank.end());
    }
    return absl::OkStatus();
  }

 private:
  void KeepHeavyAway(DeviceGaps* device) const {
    for (const Chain& chain : work_.chains) {
      const bool heavy =
          std::any_of(chain.steps.begin(), chain.steps.end(), [this](const WorkStep& step) {
            return std::count(options_.heavy_components.begin(), options_.heavy_components.end(),
                              step.component) > 0;
          });
      device->max_units.push_back(heavy ? 0 : work_.num_units);
    }
  }

  // Sets assignment_. Groups often have equal gaps, so results are cached by gaps.
  absl::Status Assign(const std::vector<DeviceGaps>& devices) {
    for (const auto& [known, assignment] : known_) {
      if (known != devices) continue;
      assignment_ = assignment;
      return absl::OkStatus();
    }
    if (options_.exact) {
      DPIPE_ASSIGN_OR_RETURN(ExactAssignment exact,
                             AssignUnitsExactly(work_, devices, assign_, options_.exact_limits));
      assignment_ = std::move(exact.assignment);
    } else {
      assignment_ = AssignUnits(work_, devices, assign_);
    }
    known_.emplace_back(devices, assignment_);
    return absl::OkStatus();
  }

  std::vector<std::vector<FillItem>> ItemsOf(const std::vector<RankGaps>& ranks, int first_rank,
                                             int first_sample) const {
    std::vector<std::vector<FillItem>> by_rank(ranks.size());
    std::vector<int> next_unit(work_.chains.size(), 0);
    for (size_t d = 0; d < ranks.size(); ++d) {
      for (const Placement& placement : assignment_.packings[d].placements) {
        AppendItems(work_, placement, first_rank + static_cast<int>(d),
                    ranks[d].positions[placement.gap],
                    first_sample + next_unit[placement.chain] * work_.quantum, by_rank[d]);
      }
      for (size_t c = 0; c < work_.chains.size(); ++c) next_unit[c] += assignment_.units[d][c];
    }
    return by_rank;
  }

  // Lowers the limits of devices that exceed their memory. Skips devices that exceed it even
  // without frozen work. Returns true if any limit changed.
  bool Tighten(const std::vector<std::vector<FillItem>>& by_rank, int first_rank,
               std::vector<DeviceGaps>& devices) {
    bool tightened = false;
    for (size_t d = 0; d < devices.size(); ++d) {
      const int rank = first_rank + static_cast<int>(d);
      const int64_t limit = cost_.MemoryLimitOf(rank);
      if (limit == 0 || memory_->PeakBytes(rank, by_rank[d]) <= limit) continue;
      if (memory_->PeakBytes(rank, {}) > limit) continue;
      tightened |= TightenDevice(assignment_.units[d], devices[d]);
    }
    return tightened;
  }

  // Halves the maximum batch, or reduces the units by a quarter if that is not possible. Returns
  // false if neither is.
  bool TightenDevice(const std::vector<int>& units, DeviceGaps& device) const {
    const int max_units = *std::max_element(units.begin(), units.end());
    int& batch = device.max_batch_units;
    if (!options_.exact && max_units > 1 && batch != 1) {
      batch = batch == 0 ? (max_units + 1) / 2 : (std::min(batch, max_units) + 1) / 2;
      return true;
    }
    if (max_units == 0 || options_.even_samples) return false;
    device.max_units.resize(units.size());
    for (size_t c = 0; c < units.size(); ++c) device.max_units[c] = units[c] * 3 / 4;
    return true;
  }

  static constexpr int kMemoryRounds = 16;

  const FrozenWork& work_;
  const FillOptions options_;
  const CostModel& cost_;
  std::unique_ptr<FillMemory> memory_;  // null if no rank has a limit
  AssignOptions assign_;
  Assignment assignment_;  // of the current group
  std::vector<std::pair<std::vector<DeviceGaps>, Assignment>> known_;
};

}  // namespace

absl::StatusOr<std::vector<FillItem>> PlaceFrozenWork(const Plan& unfilled,
                                                      const std::vector<StreamEvent>& events,
                                                      const CostModel& cost,
                                                      const FillOptions& options) {
  std::vector<FillItem> items;
  if (cost.frozen_components().empty()) return items;
  if (!(options.margin >= 0 && options.margin < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("filling: the margin is ", options.margin, "; it must be in [0, 1)"));
  }
  const int group_size = unfilled.devices_per_pipeline();
  const int num_groups = unfilled.num_devices() / group_size;
  const int samples_per_group = unfilled.global_batch() / num_groups;
  if (samples_per_group % cost.frozen_quantum() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", samples_per_group,
                     " samples of a pipeline group are not a multiple of the frozen "
                     "quantum of ",
                     cost.frozen_quantum(), " samples"));
  }
  const FrozenWork work = MakeFrozenWork(cost, samples_per_group / cost.frozen_quantum());
  Filler filler(unfilled, work, options, cost);
  const std::vector<std::vector<IdleInterval>> idle = IdleIntervals(unfilled, events);
  for (int g = 0; g < num_groups; ++g) {
    std::vector<RankGaps> ranks;
    for (int r = g * group_size; r < (g + 1) * group_size; ++r) {
      ranks.push_back(GapsOfRank(unfilled, idle[r], r, ScaleOfRank(cost, options.margin, r)));
    }
    DPIPE_RETURN_IF_ERROR(filler.FillGroup(ranks, g * group_size, g * samples_per_group, items));
  }
  return items;
}

}  // namespace dpipe
