#include "core/planner/fill/fill.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/planner/bubbles.h"
#include "core/planner/fill/assign.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/pack.h"

namespace dpipe {
namespace {

// A rank's gaps, and the positions of the compute instructions that end them.
struct RankGaps {
  DeviceGaps device;
  std::vector<int> positions;  // by gap, then that of the optimizer step
};

// Time that surely fits in an idle interval of `length_ns` while the device may be communicating.
Nanos UsableTime(Nanos length_ns, double contention_factor) {
  if (contention_factor <= 1) return length_ns;
  return static_cast<Nanos>(static_cast<double>(length_ns) / contention_factor);
}

RankGaps GapsOfRank(const Plan& plan, const std::vector<StreamEvent>& events, int rank,
                    double contention_factor) {
  const DeviceProgram& program = plan.devices(rank);
  const std::vector<int> compute = ComputeInstructions(program);
  RankGaps gaps;
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
      gaps.device.gaps.push_back(UsableTime(length_ns, contention_factor));
      gaps.positions.push_back(position);
    }
    busy_until_ns = event.end_ns;
  }
  return gaps;
}

// The instructions of one placement on samples that start at `first_sample`.
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

void FillGroup(const FrozenWork& work, const std::vector<RankGaps>& ranks, int first_rank,
               int first_sample, const PackOptions& options, std::vector<FillItem>& items) {
  std::vector<DeviceGaps> devices;
  for (const RankGaps& rank : ranks) devices.push_back(rank.device);
  const Assignment assignment = AssignUnits(work, devices, {options});
  std::vector<int> next_unit(work.chains.size(), 0);
  for (size_t d = 0; d < devices.size(); ++d) {
    for (const Placement& placement : assignment.packings[d].placements) {
      AppendItems(work, placement, first_rank + static_cast<int>(d),
                  ranks[d].positions[placement.gap],
                  first_sample + next_unit[placement.chain] * work.quantum, items);
    }
    for (size_t c = 0; c < work.chains.size(); ++c) next_unit[c] += assignment.units[d][c];
  }
}

// By rank: the compute events of step 1, after the last one of step 0.
std::vector<std::vector<StreamEvent>> EventsByRank(const Plan& plan,
                                                   const std::vector<StreamEvent>& events) {
  std::vector<std::vector<StreamEvent>> by_rank(plan.devices_size());
  for (const StreamEvent& event : events) by_rank[event.rank].push_back(event);
  for (int r = 0; r < plan.devices_size(); ++r) {
    by_rank[r] = ComputeEventsOfStep(by_rank[r], r, 1);
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
  const int group_size = unfilled.devices_per_pipeline();
  const int num_groups = unfilled.num_devices() / group_size;
  const int samples_per_group = unfilled.global_batch() / num_groups;
  if (samples_per_group % cost.frozen_quantum() != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a pipeline's ", samples_per_group,
                                                   " samples cannot be cut into frozen work of ",
                                                   cost.frozen_quantum(), " samples"));
  }
  const FrozenWork work = MakeFrozenWork(cost, samples_per_group / cost.frozen_quantum());
  PackOptions pack;
  pack.partial_batch = options.partial_batch;
  pack.min_gap_ns = options.min_bubble_ns > 0
                        ? options.min_bubble_ns
                        : static_cast<Nanos>(cost.profile().launch_overhead_ns());
  const std::vector<std::vector<StreamEvent>> by_rank = EventsByRank(unfilled, events);
  for (int g = 0; g < num_groups; ++g) {
    std::vector<RankGaps> ranks;
    for (int r = g * group_size; r < (g + 1) * group_size; ++r) {
      ranks.push_back(GapsOfRank(unfilled, by_rank[r], r, cost.cluster().contention_factor()));
    }
    FillGroup(work, ranks, g * group_size, g * samples_per_group, pack, items);
  }
  return items;
}

}  // namespace dpipe
