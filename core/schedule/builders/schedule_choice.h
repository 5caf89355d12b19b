// Picks the best of several schedules for one request, by cost and memory.
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_SCHEDULE_CHOICE_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_SCHEDULE_CHOICE_H_

#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/schedule/generators.h"
#include "core/schedule/peak_limit.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Returns a lower bound on the makespan of any schedule of these chains: the maximum over devices
// of the earliest time that a pass can reach the device, plus its total work. `costs` by stage.
Nanos MakespanBound(const Schedule& schedule, const std::vector<PassCosts>& costs);

class ScheduleChoice {
 public:
  explicit ScheduleChoice(const ScheduleRequest& request) : request_(request) {}

  // Keeps the schedule if it is within the peak limit and shorter than all before it. The first
  // error, a status that is not OK or a limit exceeded, becomes the reason that Take may return.
  void Offer(absl::StatusOr<Schedule> schedule);
  // True if the schedule kept meets MakespanBound, so nothing shorter exists.
  bool IsAtBound() const;
  // Returns the schedule kept, or the first error if there is none (InvalidArgument if nothing was
  // offered).
  absl::StatusOr<Schedule> Take();

 private:
  const ScheduleRequest& request_;
  absl::optional<Schedule> best_;
  std::vector<PassCosts> costs_;  // of best_
  Nanos best_ns_ = 0;
  absl::Status reason_ = absl::InvalidArgumentError("no schedule was offered");
  bool has_reason_ = false;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_SCHEDULE_CHOICE_H_
