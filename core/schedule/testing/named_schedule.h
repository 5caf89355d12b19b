// Helpers for tests: schedules by name, and random costs for them.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_NAMED_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_TESTING_NAMED_SCHEDULE_H_

#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Returns a request with unit costs.
ScheduleRequest RequestOf(int devices, int micro_batches, int peak_limit = 0);

// Return the result of MakeSchedule, and CHECK-fail if that is an error. `costs` are by stage, for
// schedules that depend on them.
Schedule NamedSchedule(const std::string& name, const ScheduleRequest& request);
Schedule NamedSchedule(const std::string& name, int devices, int micro_batches,
                       std::vector<PassCosts> costs = {});

// Returns random costs of 1 to 100 ns per pass. With `some_free`, each pass is free with
// probability 1/4.
std::vector<PassCosts> RandomPassCosts(int num_stages, RandomStream& stream,
                                       bool some_free = false);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_NAMED_SCHEDULE_H_
