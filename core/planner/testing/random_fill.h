// Random instances of the filling problem, for tests.
#ifndef DPIPE_CORE_PLANNER_TESTING_RANDOM_FILL_H_
#define DPIPE_CORE_PLANNER_TESTING_RANDOM_FILL_H_

#include <vector>

#include "core/base/philox.h"
#include "core/base/time.h"
#include "core/planner/fill/frozen_work.h"
#include "core/planner/fill/greedy/assign.h"

namespace dpipe {

struct RandomFillOptions {
  int max_devices = 4;  // at least 2
  int min_gaps = 2, max_gaps = 4;
  int max_chains = 2;
  int min_steps = 2, max_steps = 5;
  int min_units = 2, max_units = 6;
  Nanos max_step_ns = 40;  // per unit
  Nanos max_overhead_ns = 4;
};

struct RandomFillInstance {
  FrozenWork work;
  std::vector<DeviceGaps> devices;
};

// Returns a random instance. A step's time is a fixed cost plus a cost per unit; the fixed cost is
// at most that of one unit. The expected total of all gaps is 0.3 to 1.1 times the work at full
// batch, so that good filling matters.
RandomFillInstance MakeRandomFill(RandomStream& random, const RandomFillOptions& options);

// Returns instance `index` of a fixed sequence, with the default options.
RandomFillInstance RandomFillNumber(int index);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_TESTING_RANDOM_FILL_H_
