// What a named schedule requires of a request and what it yields, without building it. A search
// uses this to skip impossible requests, a partitioner to know how many stages to cut.
//
//   const ScheduleTraits traits = *TraitsOf("zb-v");
//   if (!CheckRequest("zb-v", traits, request).ok()) continue;
#ifndef DPIPE_CORE_SCHEDULE_SCHEDULE_TRAITS_H_
#define DPIPE_CORE_SCHEDULE_SCHEDULE_TRAITS_H_

#include <string>

#include "core/base/status.h"
#include "core/schedule/generators.h"

namespace dpipe {

struct ScheduleTraits {
  // Requirements on num_devices.
  int min_devices = 1;
  int max_devices = 0;  // 0: any number
  int devices_multiple_of = 1;
  // Requirements on num_micro_batches.
  int micro_batches_multiple_of = 1;
  bool micro_batches_multiple_of_devices = false;
  int min_micro_batches_per_device = 0;

  // The result's stages per device if ScheduleRequest.stages_per_device is 0, over all chains and
  // without the forward-only stages of self-conditioning, which double it.
  int stages_per_device = 1;
  // True if ScheduleRequest.stages_per_device is honoured; otherwise it must be 0 or the number
  // above.
  bool takes_stages_per_device = false;
  int min_stages_per_device = 1;
  // The number of chains per backbone. Each has a copy of the weights, and takes an equal or nearly
  // equal share of the micro-batches.
  int weight_copies = 1;
  int num_backbones = 1;
  // True if some backward passes are split into input and weight gradients.
  bool splits_backward = false;
  // True if the order depends on ScheduleRequest.costs.
  bool takes_costs = false;
  // About how many orders the generator makes, of which it returns the best.
  int num_tried = 1;
};

// Returns a schedule's traits. NotFound if the name is not one of ScheduleNames().
absl::StatusOr<ScheduleTraits> TraitsOf(const std::string& name);

// Adds the traits of a schedule. CHECK-fails if the name has traits already. Not thread-safe.
void RegisterScheduleTraits(const std::string& name, const ScheduleTraits& traits);

// InvalidArgument, naming the schedule, what is requested and what is possible, unless the traits
// allow the counts of the request. A request that passes can still fail for its peak limit or its
// costs.
absl::Status CheckRequest(const std::string& name, const ScheduleTraits& traits,
                          const ScheduleRequest& request);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_SCHEDULE_TRAITS_H_
