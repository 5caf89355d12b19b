// The schedules by name. A new one is one file that ends in REGISTER_SCHEDULE_GENERATOR, named in
// the `generators` target.
//
//   gpipe        all forwards, then all backwards
//   1f1b         stage s runs p-1-s forwards ahead, then one forward, one backward
//   eager-1f1b   the same, 2(p-1-s) forwards ahead
//   interleaved  several stages a device, in a loop
//   zb-h1, zb-h2, zb-auto   split backward passes; zb-auto by times and under a limit
//   single       one stage: each micro-batch forward and backward in turn
//
// One chain in a V, two stages a device:
//   zb-v         split backward passes, no idle slot but the way in; what a device of 1f1b keeps
//   v-half, v-min   about half and a third of that
//   dualpipe-v   split where it matters, joint elsewhere, one pair more
//   v-auto       the best of these and of greedy orders by times and under a limit
//   wave         joint backward passes; skips between mirrored stages stay on their device
// Two chains of one backbone in opposite directions, weights twice:
//   chimera      one stage a direction and device
//   bitpipe      two of them in a V
// Others:
//   zeropp       interleaved, in units of micro-batches, so that sharded weights are gathered once
//                for each unit and pass
//   cascaded, cascaded-zb   several backbones in alternate directions; joint and split
//   cascaded-v              the same, split, each in a V
//
// schedule_traits.h says what each asks and gives.
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
  // Stages of each device, for schedules that leave it open (interleaved); 0: their default.
  int stages_per_device = 0;
  // By stage id of the result (whose stages and devices do not depend on costs); empty: unit costs
  // F = I = W = 1. Generators that look at times decide by them.
  std::vector<PassCosts> costs = {};
  // The most stashed (stage, micro-batch) pairs a device may hold; 0: unlimited. Generators that
  // can trade bubbles for memory do; the others refuse.
  int peak_limit = 0;
  // Each micro-batch makes a forward-only lap first, which MakeSchedule adds to what the generator
  // gives (self_conditioning.h); `costs` are then those of both laps.
  bool self_conditioning = false;
  // By backbone, for schedules of several (cascaded); empty: num_micro_batches of each.
  std::vector<int> backbone_micro_batches = {};
};

using ScheduleGenerator = std::function<absl::StatusOr<Schedule>(const ScheduleRequest&)>;

// NotFound, listing the names there are, if there is no such generator; InvalidArgument if the
// request is impossible for it.
absl::StatusOr<Schedule> MakeSchedule(const std::string& name, const ScheduleRequest& request);

// Sorted.
std::vector<std::string> ScheduleNames();

// Adds a generator; a name given twice is a bug. Returns true, so that it can initialise a
// constant.
bool RegisterScheduleGenerator(const std::string& name, ScheduleGenerator generator);

}  // namespace dpipe

#define REGISTER_SCHEDULE_GENERATOR(name, function) \
  static const bool dpipe_registered_##function = ::dpipe::RegisterScheduleGenerator(name, function)

#endif  // DPIPE_CORE_SCHEDULE_GENERATORS_H_
