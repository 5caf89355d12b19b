// Schedules made by simulation: whenever a device is free, the ready pass of highest priority
// starts.
//
// Every stage takes the micro-batches of its chain in order, in each kind of pass, so that a stage
// offers at most one forward, one gradient and one weight-gradient pass at a time. Because the
// order is that of a simulation that ran to its end, it cannot deadlock. [algorithms.md §5]
//
// A pair (stage, micro-batch) is kept from the start of its forward pass to the end of its
// weight-gradient (or joint backward) pass. Under a limit by device a forward pass starts only
// where everything in the pipeline can still finish (safe_room.h), so a simulation never gets
// stuck; a limit by stage never holds up the oldest micro-batch, so it does not either.
//
// Time O(slots x (stages of a device + micro-batches in flight under a limit)).
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

// A pass that could start now.
struct ListCandidate {
  Slot slot;
  int chain = 0;
  bool forward_only = false;  // the stage is
  Nanos duration_ns = 0;
  // From its start to the end of the micro-batch's last pass on the critical path through the
  // chain if nothing waits: the forward passes to come, the gradients back, and, where they are
  // split, the first stage's weight gradient. Of a weight-gradient pass, its own time.
  Nanos remaining_ns = 0;
  int kept_on_device = 0;
  int kept_of_stage = 0;
};

// The smallest, compared element by element, goes first; among equals the lower micro-batch, then
// the later stage.
using ListPriority = std::array<Nanos, 3>;
using ListPolicy = std::function<ListPriority(const ListCandidate&)>;

// Input gradients (or joint backwards), then forwards, then weight gradients; within a kind the
// longest remaining path.
ListPriority GradientsFirst(const ListCandidate& candidate);
// The longest remaining path among forwards and input gradients; weight gradients last.
ListPriority LongestPathFirst(const ListCandidate& candidate);
// The lowest micro-batch among forwards and input gradients; weight gradients last.
ListPriority OldestFirst(const ListCandidate& candidate);

struct ListScheduleOptions {
  std::vector<PassCosts> costs = {};  // by stage; empty: F = I = W = 1
  ListPolicy policy = GradientsFirst;
  bool split_backward = true;  // input and weight gradients apart; false: joint backward passes
  // By stage, by device: the most pairs kept; empty: no limits; an element 0: none for that one.
  std::vector<int> stage_limits = {};
  std::vector<int> device_limits = {};
  // A weight-gradient pass is put off while another pass is known to become ready on the device
  // within this part of its duration. 0: a free device never waits; 1: it waits for every pass that
  // the weight gradient would delay.
  double weight_patience = 0;
};

// InvalidArgument if the chains are none, the costs' or limits' number is wrong, a limit is too
// small for one micro-batch, or a cost is negative.
absl::StatusOr<Schedule> ListSchedule(const std::string& name,
                                      const std::vector<ScheduleChain>& chains,
                                      const ListScheduleOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_LIST_SCHEDULE_H_
