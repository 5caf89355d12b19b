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
  int max_micro_batches = 4;    // of one chain
  std::vector<int> num_layers;  // by backbone: no chain has more stages (in one lap) than layers
  bool split_gradients = true;
  bool several_stages = true;  // otherwise one chain, with a stage on each device
};

// One chain for each backbone, or two of one of them; stages on random devices, all of which hold
// one; no device holds the same stage of both of a backbone's chains; now and then two laps. Slots
// as RandomOrder's.
Schedule RandomSchedule(RandomStream& stream, const RandomScheduleOptions& options);

// A random order that Schedule::Verify accepts: devices take slots that are ready, in random turns;
// micro-batches now in order, now in any. Backward passes are split at random if
// `split_gradients`.
Schedule RandomOrder(RandomStream& stream, const std::vector<ScheduleChain>& chains,
                     int num_devices, bool split_gradients);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_RANDOM_SCHEDULE_H_
