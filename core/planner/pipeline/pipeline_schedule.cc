#include "core/planner/pipeline/pipeline_schedule.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/schedule/builders/concatenate_schedules.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule_traits.h"

namespace dpipe {

absl::StatusOr<Schedule> MakePipelineSchedule(const PipelineShape& shape,
                                              const PipelineScheduleOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const ScheduleTraits traits, TraitsOf(shape.schedule));
  ScheduleRequest request;
  request.num_devices = shape.num_stages;
  request.num_micro_batches = shape.num_micro_batches;
  request.stages_per_device = shape.stages_per_device;
  request.peak_limit = shape.peak_limit;
  request.self_conditioning = options.self_conditioning;
  if (traits.num_backbones > 1) {
    if (traits.num_backbones != options.num_backbones) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule ", shape.schedule, " is for ", traits.num_backbones,
                       " backbones, but the model has ", options.num_backbones));
    }
    request.costs = options.costs;
    request.backbone_micro_batches.assign(options.num_backbones, shape.num_micro_batches);
    return MakeSchedule(shape.schedule, request);
  }
  std::vector<Schedule> backbones;
  const size_t per_backbone = options.costs.size() / options.num_backbones;
  for (int b = 0; b < options.num_backbones; ++b) {
    request.costs.assign(options.costs.begin() + b * per_backbone,
                         options.costs.begin() + (b + 1) * per_backbone);
    DPIPE_ASSIGN_OR_RETURN(Schedule schedule, MakeSchedule(shape.schedule, request));
    backbones.push_back(std::move(schedule));
  }
  return ConcatenateSchedules(backbones);
}

int BlocksInFlight(const Schedule& schedule) {
  int largest = 0;
  std::vector<int> in_flight(schedule.num_stages(), 0);
  for (int d = 0; d < schedule.num_devices(); ++d) {
    for (const Slot& slot : schedule.slots(d)) {
      if (slot.pass == Pass::kInputGrad) return 0;
      if (schedule.IsForwardOnly(slot.stage)) continue;
      in_flight[slot.stage] += slot.pass == Pass::kForward ? 1 : -1;
      largest = std::max(largest, in_flight[slot.stage]);
    }
  }
  return largest;
}

}  // namespace dpipe
