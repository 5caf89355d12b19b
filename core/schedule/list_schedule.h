// Schedules made by simulation: whenever a device is free, the ready pass of highest priority
// starts.
//
// Every stage takes the micro-batches of its chain in order, in each kind of pass, so that a stage
// offers at most one forward, one gradient and one weight-gradient pass at a time. Because the
// order is that of a simulation that ran to its end, it cannot deadlock. [algorithms.md §5]
//
// Limits on what is kept. A pair (stage, micro-batch) is kept from the start of its forward pass to
// the end of its weight-gradient (or joint backward) pass. A greedy order under a limit can fill a
// device with pairs that cannot finish (the first stage of a V shuts out the last one, which
// shares its device). So a forward pass starts only if the state after it is safe in the sense of
// Dijkstra's banker: taking the micro-batches in the order in which they entered the pipeline, each
// could finish with the room that is left and give back all that it keeps. A pass adds to one
// device only, so only that device need be looked at: for every micro-batch i in its list,
//
//   (pairs kept by i and those after it) + (pairs that i has yet to add) <= limit.
//
// The oldest micro-batch's passes keep every such sum as it is or lower it, so something can always
// go on; and a new one may enter an empty device whenever the limit is at least the number of
// stages with gradients that one chain has there. Limits by stage never hold up the oldest.
//
// Time O(slots x (stages of a device + micro-batches in flight under a limit)).
#ifndef DPIPE_CORE_SCHEDULE_LIST_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_LIST_SCHEDULE_H_

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
// Forwards, then input gradients, then weight gradients; within a kind the longest remaining path.
ListPriority ForwardsFirst(const ListCandidate& candidate);
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

#endif  // DPIPE_CORE_SCHEDULE_LIST_SCHEDULE_H_
