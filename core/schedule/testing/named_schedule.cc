#include "core/schedule/testing/named_schedule.h"

#include <utility>

#include "core/base/check.h"

namespace dpipe {

ScheduleRequest RequestOf(int devices, int micro_batches, int peak_limit) {
  ScheduleRequest request;
  request.num_devices = devices;
  request.num_micro_batches = micro_batches;
  request.peak_limit = peak_limit;
  return request;
}

Schedule NamedSchedule(const std::string& name, const ScheduleRequest& request) {
  auto schedule = MakeSchedule(name, request);
  DPIPE_CHECK(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

Schedule NamedSchedule(const std::string& name, int devices, int micro_batches,
                       std::vector<PassCosts> costs) {
  ScheduleRequest request = RequestOf(devices, micro_batches);
  request.costs = std::move(costs);
  return NamedSchedule(name, request);
}

std::vector<PassCosts> RandomPassCosts(int num_stages, RandomStream& stream, bool some_free) {
  const auto draw = [&]() -> Nanos {
    if (some_free && stream.NextBelow(4) == 0) return 0;
    return static_cast<Nanos>(1 + stream.NextBelow(100));
  };
  std::vector<PassCosts> costs;
  for (int s = 0; s < num_stages; ++s) costs.push_back({draw(), draw(), draw()});
  return costs;
}

}  // namespace dpipe
