// Schedules by name, and random costs for them, for tests.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_NAMED_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_TESTING_NAMED_SCHEDULE_H_

#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule.h"

namespace dpipe {

ScheduleRequest RequestOf(int devices, int micro_batches, int peak_limit = 0);

// What MakeSchedule makes, which must succeed. `costs`: of the stages, for names that use them.
Schedule NamedSchedule(const std::string& name, const ScheduleRequest& request);
Schedule NamedSchedule(const std::string& name, int devices, int micro_batches,
                       std::vector<PassCosts> costs = {});

// 1 to 100 ns for each pass of each stage; with `some_free`, none for a quarter of them.
std::vector<PassCosts> RandomPassCosts(int num_stages, RandomStream& stream,
                                       bool some_free = false);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TESTING_NAMED_SCHEDULE_H_
