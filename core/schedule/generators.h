// Schedule generators, by name. To add one, write a file that ends in REGISTER_SCHEDULE_GENERATOR
// and add it to the `generators` target. p is the number of devices.
//
//   gpipe        all forward passes, then all backward passes
//   1f1b         stage s runs p-1-s forward passes ahead, then one forward, one backward
//   eager-1f1b   the same, 2(p-1-s) forward passes ahead
//   interleaved  several stages per device, in a loop
//   zb-h1, zb-h2, zb-auto   split backward passes; zb-auto decides by costs and peak limit
//   single       one stage: each micro-batch forward and backward in turn
//
// One V-shaped chain, two stages per device:
//   zb-v         split backward passes, idle only until the first pass; as much memory as 1f1b
//   v-half, v-min   about half and a third of that memory
//   dualpipe-v   split backward passes only where they help; one pair more than zb-v
//   v-auto       the best of these and of greedy orders, by costs and peak limit
//   wave         joint backward passes; skips between mirrored stages stay on their device
// Two chains of one backbone in opposite directions, two copies of the weights:
//   chimera      one stage per direction and device
//   bitpipe      two V-shaped chains
// Others:
//   zeropp       interleaved, in units of micro-batches, so that sharded weights are gathered once
//                per unit and pass
//   cascaded, cascaded-zb   several backbones in alternate directions; joint and split backward
//                           passes
//   cascaded-v              the same, split, with a V-shaped chain per backbone
//
// schedule_traits.h gives the requirements and properties of each.
#ifndef DPIPE_CORE_SCHEDULE_GENERATORS_H_
#define DPIPE_CORE_SCHEDULE_GENERATORS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct ScheduleRequest {
  int num_devices = 1;        // p
  int num_micro_batches = 1;  // of the backbone, over all of its chains
  // Stages per device, for schedules with a choice (such as interleaved). 0: the schedule's
  // default.
  int stages_per_device = 0;
  // By stage id of the result, whose stages and devices do not depend on costs. Used by generators
  // that choose by makespan. Empty: F = I = W = 1.
  std::vector<PassCosts> costs = {};
  // The maximum number of stashed (stage, micro-batch) pairs per device. 0: unlimited. Generators
  // that can trade bubbles for memory do so; others return an error if they exceed it.
  int peak_limit = 0;
  // Runs a forward-only lap before each micro-batch. MakeSchedule adds it to the generator's
  // schedule (self_conditioning.h). `costs` then cover both laps.
  bool self_conditioning = false;
  // By backbone, for schedules of several backbones (cascaded). Empty: num_micro_batches each, for
  // two backbones.
  std::vector<int> backbone_micro_batches = {};
};

using ScheduleGenerator = std::function<absl::StatusOr<Schedule>(const ScheduleRequest&)>;

// Returns the schedule that the named generator makes. NotFound, with a list of all names, if there
// is no such generator. InvalidArgument if the generator cannot satisfy the request.
absl::StatusOr<Schedule> MakeSchedule(const std::string& name, const ScheduleRequest& request);

// Returns the names of all generators, sorted.
std::vector<std::string> ScheduleNames();

// Registers a generator. CHECK-fails if the name is taken. Returns true, so that a static constant
// can be initialised with the call.
bool RegisterScheduleGenerator(const std::string& name, ScheduleGenerator generator);

}  // namespace dpipe

#define REGISTER_SCHEDULE_GENERATOR(name, function) \
  static const bool dpipe_registered_##function = ::dpipe::RegisterScheduleGenerator(name, function)

#endif  // DPIPE_CORE_SCHEDULE_GENERATORS_H_
