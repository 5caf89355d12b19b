// Where and when the frozen components run.
#ifndef DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_PLACEMENT_H_
#define DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_PLACEMENT_H_

#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/schedule/placement/frozen_exchange.h"
#include "core/schedule/placement/layout.h"

namespace dpipe {

enum class FrozenPolicy {
  kFirst,       // before the pipeline; a group's samples are spread evenly over its devices
  kFirstStage,  // before the pipeline; all of a group's samples on the schedule's first device
  kFill,        // at the positions of the FillItems
  kCached,      // not run: each rank that reads frozen outputs loads them (a backbone's LOAD_BATCH)
};

// One piece of frozen work that the planner has placed.
struct FillItem {
  int rank = 0;
  // The item is inserted right before the rank's compute instruction number `position` (from 0) in
  // the same plan lowered without fill items, and so after the messages before that instruction.
  // Compute instructions are all except SEND and RECV; the last one is OPTIMIZER_STEP. Items with
  // the same position keep their order. Work for this step (step_offset 0) comes before everything
  // else and must have position 0.
  int position = 0;
  bool load = false;  // true: LOAD_BATCH; false: FROZEN_FORWARD
  int component = 0;
  LayerRange layers;  // of a FROZEN_FORWARD
  SampleRange samples;
  int step_offset = 1;
};

struct FrozenPlacement {
  std::vector<std::vector<FillItem>> items;  // by rank, sorted by position
  std::vector<FrozenMessage> exchange;       // messages that carry the outputs to their readers
};

// Returns the placement for kFirst. Each rank of a group runs all components for an even share of
// the group's samples, in multiples of `quantum`. If the schedule has one device, each rank instead
// takes the samples that it will train on, provided that they are aligned to `quantum`. A
// FROZEN_FORWARD has at most `max_batch` samples (0: no limit), rounded down to a multiple of
// `quantum` but not below it.
FrozenPlacement PlaceFrozenFirst(const PipelineLayout& layout, const CostModel& cost, int quantum,
                                 int max_batch);

// Returns the placement for kFirstStage. As PlaceFrozenFirst, but only the ranks of the schedule's
// device 0 share the samples of their group.
FrozenPlacement PlaceFrozenOnFirstStage(const PipelineLayout& layout, const CostModel& cost,
                                        int quantum, int max_batch);

// Returns the placement for kFill. InvalidArgument if an item's rank is out of range, if its
// component is not frozen, or if it is for this step and not at position 0.
absl::StatusOr<FrozenPlacement> PlaceFillItems(const PipelineLayout& layout, const CostModel& cost,
                                               const std::vector<FillItem>& fill);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_PLACEMENT_H_
