#include "core/planner/possible_shapes.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/planner/strategy.h"

namespace dpipe {

absl::Status CheckShapesExist(const Strategy& strategy, ShapeRequest request) {
  if (strategy.frozen() == "cached") request.frozen_quantum = 1;
  absl::Status reason;
  for (const ScheduleAlternative& choice : ScheduleAlternatives(strategy)) {
    request.schedule = choice.schedule;
    DPIPE_RETURN_IF_ERROR(CheckRequest(request));
    absl::Status why;
    if (!EnumerateShapes(request, &why).empty()) return absl::OkStatus();
    if (reason.ok()) reason = why;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "strategy ", strategy.name(), " on ", request.num_devices,
      request.num_devices == 1 ? " device" : " devices", ": ",
      reason.ok() ? "no shape divides" : std::string(reason.message()),
      "; change --global_batch=", request.global_batch,
      ", --micro_batches=", request.num_micro_batches, ", the number of devices or the strategy"));
}

}  // namespace dpipe
