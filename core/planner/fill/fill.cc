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

namespace dpipe {
namespace {

// Allowance for rounding up by 1 ns per instruction; no relevant gap has more instructions.
constexpr Nanos kRoundingNs = 64;

// A rank's gaps and the positions of the compute instructions that end them.
struct RankGaps {
  DeviceGaps device;
  std::vector<int> positions;  // by gap, then the position of the optimizer step
};

// Converts the length of an idle interval into usable time on the profile's time scale.
struct GapScale {
  double usable = 1;      // fraction left after contention and the margin
  double speed = 1;       // of the rank, relative to the profile
  Nanos rounding_ns = 0;  // CostModel::OnRank rounds up the time of each instruction

  Nanos operator()(Nanos length_ns) const {
    if (usable == 1 && speed == 1) return length_ns;
    const double ns = static_cast<double>(length_ns - rounding_ns) * usable * speed;
    return std::max<Nanos>(0, static_cast<Nanos>(ns));
  }
};

GapScale ScaleOfRank(const CostModel& cost, const FillOptions& options, int rank) {
  GapScale scale;
  scale.usable = (1 - options.margin) / std::max(1.0, cost.cluster().contention_factor());
  scale.speed = cost.SpeedOf(rank);
  scale.rounding_ns = scale.speed == 1 ? 0 : kRoundingNs;
  return scale;
}

RankGaps GapsOfRank(const Plan& plan, const std::vector<StreamEvent>& events, int rank,
                    const GapScale& scale) {
  const DeviceProgram& program = plan.devices(rank);
  const std::vector<int> compute = ComputeInstructions(program);
  RankGaps gaps;
  gaps.device.speed = scale.speed;
  Nanos busy_until_ns = events.empty() ? 0 : events.front().end_ns;
  for (size_t i = 1; i < events.size(); ++i) {
    const StreamEvent& event = events[i];
    const int position = static_cast<int>(
        std::lower_bound(compute.begin(), compute.end(), event.instruction) - compute.begin());
    const Nanos length_ns = event.start_ns - busy_until_ns;
    if (program.instructions(event.instruction).kind() == Instruction::OPTIMIZER_STEP) {
      gaps.device.end_ns = busy_until_ns;
      gaps.device.optimizer_ns = event.start_ns;
      gaps.positions.push_back(position);
      break;
    }
    if (length_ns > 0) {
      gaps.device.gaps.push_back(scale(length_ns));
      gaps.positions.push_back(position);
    }
    busy_until_ns = event.end_ns;
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

// Returns, by rank and in list order, the last compute event of step 0 and then those of step 1.
std::vector<std::vector<StreamEvent>> EventsByRank(const Plan& plan,
                                                   const std::vector<StreamEvent>& events) {
  const auto place = [](const StreamEvent& e) { return std::make_pair(e.step, e.instruction); };
  std::vector<std::vector<StreamEvent>> by_rank(plan.devices_size());
  std::vector<StreamEvent> last(plan.devices_size());
  for (StreamEvent& before : last) before.step = -1;
  for (const StreamEvent& event : events) {
    if (event.stream != TraceEvent::COMPUTE) continue;
    if (event.step == 1) by_rank[event.rank].push_back(event);
    StreamEvent& before = last[event.rank];
    if (event.step == 0 && place(before) < place(event)) before = event;
  }
  for (int r = 0; r < plan.devices_size(); ++r) {
    std::sort(by_rank[r].begin(), by_rank[r].end(),
              [&](const StreamEvent& a, const StreamEvent& b) { return place(a) < place(b); });
    if (last[r].step == 0) by_rank[r].insert(by_rank[r].begin(), last[r]);
  }
  return by_rank;
}

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
  const std::vector<std::vector<StreamEvent>> by_rank = EventsByRank(unfilled, events);
  for (int g = 0; g < num_groups; ++g) {
    std::vector<RankGaps> ranks;
    for (int r = g * group_size; r < (g + 1) * group_size; ++r) {
      ranks.push_back(GapsOfRank(unfilled, by_rank[r], r, ScaleOfRank(cost, options, r)));
    }
    DPIPE_RETURN_IF_ERROR(filler.FillGroup(ranks, g * group_size, g * samples_per_group, items));
  }
  return items;
}

}  // namespace dpipe
