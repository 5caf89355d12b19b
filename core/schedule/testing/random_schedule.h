// Random schedules for tests: any chains on any devices, in any order that can run.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_RANDOM_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_TESTING_RANDOM_SCHEDULE_H_

#include <vector>

#include "core/base/philox.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct RandomScheduleOptions {
  int max_devices = 4;
  int max_stages_per_device = 2;
  int max_micro_batches = 4;    // per chain
  std::vector<int> num_layers;  // by backbone: the maximum number of stages in one lap of a chain
  bool split_gradients = true;
  bool several_stages = true;  // false: one chain, with one stage on each device
};

// Returns a schedule of one or two chains per backbone, sometimes with two laps. Stages are on
// random devices, and every device holds at least one. No device holds the same stage of both
// chains of a backbone. The slots are those of RandomOrder.
Schedule RandomSchedule(RandomStream& stream, const RandomScheduleOptions& options);

// Returns a random order that Schedule::Verify accepts. Devices take ready slots in random turns;
// sometimes the micro-batches come in order, sometimes in any order. With `split_gradients`,
// backward passes are split at random.
Schedule RandomOrder(RandomStream& stream, const std::vector<ScheduleChain>& chains,
                     int num_devices, bool split_gradients);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_RANDOM_SCHEDULE_H_
