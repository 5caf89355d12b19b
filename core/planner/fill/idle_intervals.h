// When the ranks of a simulated step compute nothing.                             [algorithms.md
// §4]
#ifndef DPIPE_CORE_PLANNER_FILL_IDLE_INTERVALS_H_
#define DPIPE_CORE_PLANNER_FILL_IDLE_INTERVALS_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/trace_stats.h"

namespace dpipe {

struct IdleInterval {
  Nanos start_ns = 0;
  Nanos end_ns = 0;
  int instruction = 0;  // index of the rank's instruction that ends it

  Nanos length_ns() const { return end_ns - start_ns; }
};

// Returns, by rank, the idle intervals of step 1 in time order, from the end of step 0 to the
// optimizer step, on the compute stream. The interval before the OPTIMIZER_STEP is always the last
// and may be empty; others are not empty. `events` are those of a periodic simulation of `plan`.
std::vector<std::vector<IdleInterval>> IdleIntervals(const Plan& plan,
                                                     const std::vector<StreamEvent>& events);

// Converts the length of an idle interval into usable time on the profile's time scale.
struct GapScale {
  double usable = 1;      // fraction left after contention and the margin
  double speed = 1;       // of the rank, relative to the profile
  Nanos rounding_ns = 0;  // CostModel::OnRank rounds up the time of each instruction

  Nanos operator()(Nanos length_ns) const;
};

// `margin` is the fraction of each interval that is left free.
GapScale ScaleOfRank(const CostModel& cost, double margin, int rank);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_FILL_IDLE_INTERVALS_H_
