// List scheduling: makes schedules by simulation. Whenever a device is free, the ready pass of
// highest priority starts. [algorithms.md §5]
//
// Every stage takes the micro-batches of its chain in order, in each kind of pass. So it offers at
// most one forward, one gradient and one weight-gradient pass at a time. The order cannot deadlock,
// because it is the order of a simulation that ran to its end.
//
// A pair (stage, micro-batch) is kept from the start of its forward pass to the end of its
// weight-gradient (or joint backward) pass. The simulation never gets stuck under limits on pairs:
//   - With a limit per device, a forward pass starts only if everything in the pipeline can still
//     finish (safe_room.h).
//   - A limit per stage never delays the oldest micro-batch.
//
// Time O(slots x (stages per device + micro-batches in flight under a limit)).
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_LIST_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_LIST_SCHEDULE_H_

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// A pass that is ready to start.
struct ListCandidate {
  Slot slot;
  int chain = 0;
  bool forward_only = false;  // true for passes of forward-only stages
  Nanos duration_ns = 0;
  // The time from the start of this pass to the end of the micro-batch's critical path through the
  // chain, without waiting: the remaining forward passes, the gradients back and, if backward
  // passes are split, the weight gradient of the first stage with gradients. For a weight-gradient
  // pass, its own duration.
  Nanos remaining_ns = 0;
  int kept_on_device = 0;  // pairs
  int kept_of_stage = 0;   // pairs
};

// Priorities are compared lexicographically; the smallest goes first. Ties go to the lower
// micro-batch, then to the later stage.
using ListPriority = std::array<Nanos, 3>;
using ListPolicy = std::function<ListPriority(const ListCandidate&)>;

// Prefers input gradients (or joint backward passes), then forward passes, then weight gradients.
// Within a kind, prefers the longest remaining path.
ListPriority GradientsFirst(const ListCandidate& candidate);
// Prefers the longest remaining path among forward passes and input gradients (or joint backward
// passes). Weight gradients come last.
ListPriority LongestPathFirst(const ListCandidate& candidate);
// Prefers the lowest micro-batch among forward passes and input gradients (or joint backward
// passes). Weight gradients come last.
ListPriority OldestFirst(const ListCandidate& candidate);

struct ListScheduleOptions {
  std::vector<PassCosts> costs = {};  // by stage; empty: F = I = W = 1
  ListPolicy policy = GradientsFirst;
  bool split_backward = true;  // into input and weight gradients; false: joint
  // The maximum number of pairs kept, by stage and by device. Empty: no limits; an element 0: no
  // limit for that stage or device.
  std::vector<int> stage_limits = {};
  std::vector<int> device_limits = {};
  // A weight-gradient pass is postponed if another pass is known to become ready on the device
  // within this fraction of its duration. 0: a free device never waits. 1: it waits for every pass
  // that the weight gradient would delay.
  double weight_patience = 0;
};

// Returns the simulated schedule. InvalidArgument if there are no stages, if the number of costs or
// limits is wrong, if a limit is too small for one micro-batch, if a cost, limit or device is
// negative, or if a chain has only forward-only stages.
absl::StatusOr<Schedule> ListSchedule(const std::string& name,
                                      const std::vector<ScheduleChain>& chains,
                                      const ListScheduleOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_LIST_SCHEDULE_H_
