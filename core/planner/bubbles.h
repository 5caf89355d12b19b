// Where devices idle in a step, and why.                                       [algorithms.md §4]
//
// A bubble is a maximal interval in which a rank's compute stream runs nothing. Steps repeat, so
// the idle time after the last instruction of a step and before the first of the next is one
// bubble, and it belongs to the next step.
#ifndef DPIPE_CORE_PLANNER_BUBBLES_H_
#define DPIPE_CORE_PLANNER_BUBBLES_H_

#include <vector>

#include "core/base/time.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/trace_stats.h"

namespace dpipe {

struct Bubble {
  int rank = 0;
  Nanos start_ns = 0;  // on the clock of the events
  Nanos length_ns = 0;
  // GRADIENT_SYNC before a reduction, or before an optimizer step that a reduction of the rank's
  // own gradients holds up. Otherwise, before an optimizer step or a flush: COOL_DOWN while other
  // ranks still compute, OPTIMIZER where all wait for each other. OPTIMIZER also for waiting until
  // parameters are gathered. Otherwise WARM_UP until the rank's first backward pass, COOL_DOWN
  // after its last forward pass, STEADY in between, whichever of its stages they are of: on a rank
  // with several, waiting between two of them is steady.
  BubbleReason reason = BUBBLE_REASON_UNSPECIFIED;
  // The instruction that ends it: its index in the rank's list, and its number among the rank's
  // compute instructions (those that are not SEND or RECV), which is FillItem.position.
  int instruction = 0;
  int position = 0;
};

// Of one step of a simulated or recorded run, `step` > 0; by rank, then time. Bubbles shorter than
// `min_length_ns`, and empty ones, are left out. About linear in the events.
std::vector<Bubble> ExtractBubbles(const Plan& plan, const std::vector<StreamEvent>& events,
                                   int step, Nanos min_length_ns = 1);

// The compute events of `step` on `rank` in list order, preceded by the last one of the step
// before.
std::vector<StreamEvent> ComputeEventsOfStep(const std::vector<StreamEvent>& events, int rank,
                                             int step);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_BUBBLES_H_
