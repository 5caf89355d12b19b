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
  kFirst,       // before the pipeline, a group's samples spread evenly over its devices
  kFirstStage,  // before the pipeline, all of a group's samples on the schedule's first device
  kFill,        // where FillItems say
  kCached,      // loaded: LOAD_BATCH of the backbone by whoever reads frozen outputs
};

// One piece of frozen work that the planner has placed.
struct FillItem {
  int rank = 0;
  // Stands right before the rank's `position`-th compute instruction (one that is not SEND or RECV,
  // counted from 0) of the same plan lowered without fill items, after the messages before that
  // instruction. The last compute instruction is OPTIMIZER_STEP. Items of one position keep their
  // order. Work for this step (step_offset 0) comes before everything, at position 0.
  int position = 0;
  bool load = false;  // LOAD_BATCH; else FROZEN_FORWARD
  int component = 0;
  LayerRange layers;  // of a FROZEN_FORWARD
  SampleRange samples;
  int step_offset = 1;
};

struct FrozenPlacement {
  std::vector<std::vector<FillItem>> items;  // by rank, by position
  std::vector<FrozenMessage> exchange;       // of the outputs
};

// Policy kFirst: each device of a group takes an even share of its samples, in multiples of
// `quantum`, all components of a sample together; where one device of the schedule holds
// everything, the samples that each of its ranks will train on. At most `max_batch` samples run at
// once (0: all).
FrozenPlacement PlaceFrozenFirst(const PipelineLayout& layout, const CostModel& cost, int quantum,
                                 int max_batch);

// Policy kFirstStage: as PlaceFrozenFirst, but the ranks of the schedule's device 0 alone share the
// samples of their group.
FrozenPlacement PlaceFrozenOnFirstStage(const PipelineLayout& layout, const CostModel& cost,
                                        int quantum, int max_batch);

// Policy kFill. InvalidArgument if an item is on no rank, of no frozen component or, for this step,
// not at position 0.
absl::StatusOr<FrozenPlacement> PlaceFillItems(const PipelineLayout& layout, const CostModel& cost,
                                               const std::vector<FillItem>& fill);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_PLACEMENT_H_
