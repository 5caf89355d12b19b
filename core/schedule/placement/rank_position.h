// The position of a rank in a layout or a plan.
#ifndef DPIPE_CORE_SCHEDULE_PLACEMENT_RANK_POSITION_H_
#define DPIPE_CORE_SCHEDULE_PLACEMENT_RANK_POSITION_H_

namespace dpipe {

// Replica number `index` of `device` in pipeline group `group`.
struct RankPosition {
  int group = 0;
  int device = 0;
  int index = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_RANK_POSITION_H_
