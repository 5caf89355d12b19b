// What a schedule by name asks of a request and what it gives, without making one: how a search
// skips what cannot be, and how a partitioner knows how many stages to cut.
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
  // What num_devices may be.
  int min_devices = 1;
  int max_devices = 0;  // 0: any number
  int devices_multiple_of = 1;
  // What num_micro_batches may be.
  int micro_batches_multiple_of = 1;
  bool micro_batches_multiple_of_devices = false;
  int min_micro_batches_per_device = 0;

  // What the result has with ScheduleRequest.stages_per_device = 0, over all chains and without the
  // forward-only stages of self-conditioning, which double it.
  int stages_per_device = 1;
  // Whether ScheduleRequest.stages_per_device is obeyed; else it must be 0 or the number above.
  bool takes_stages_per_device = false;
  int min_stages_per_device = 1;
  // Chains of one backbone: each has a copy of its weights, so these are also the copies of the
  // weights, and each takes an equal or nearly equal part of the micro-batches.
  int weight_copies = 1;
  int num_backbones = 1;
  // Whether some backward passes are split into input and weight gradients.
  bool splits_backward = false;
  // Whether the order depends on ScheduleRequest.costs.
  bool takes_costs = false;
};

// NotFound if the name is not one of ScheduleNames().
absl::StatusOr<ScheduleTraits> TraitsOf(const std::string& name);

// Adds a schedule's; a name given twice is a bug. Not thread-safe.
void RegisterScheduleTraits(const std::string& name, const ScheduleTraits& traits);

// InvalidArgument, naming the schedule, what is asked and what is possible, unless the counts of
// the request are what the traits allow. A request that passes can still fail for its peak limit or
// its costs.
absl::Status CheckRequest(const std::string& name, const ScheduleTraits& traits,
                          const ScheduleRequest& request);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_SCHEDULE_TRAITS_H_
