// The best of several schedules for one request: how generators decide by costs and memory.
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

// No schedule of these chains takes less: the most that a device has to do after the first pass
// can reach it. `costs` by stage.
Nanos MakespanBound(const Schedule& schedule, const std::vector<PassCosts>& costs);

class ScheduleChoice {
 public:
  explicit ScheduleChoice(const ScheduleRequest& request) : request_(request) {}

  // Keeps it if it is within the peak limit and shorter than what was offered before; a status that
  // is not OK counts as the reason for having none.
  void Offer(absl::StatusOr<Schedule> schedule);
  // Whether nothing shorter than what is kept can exist.
  bool IsAtBound() const;
  // InvalidArgument with the first reason if nothing fitted.
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
