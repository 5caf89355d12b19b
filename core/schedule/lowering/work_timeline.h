// When each device computes and takes part in collectives, in a run in which messages take no time.
// Internal to work_order.cc.
#ifndef DPIPE_CORE_SCHEDULE_LOWERING_WORK_TIMELINE_H_
#define DPIPE_CORE_SCHEDULE_LOWERING_WORK_TIMELINE_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/schedule/lowering/work_order.h"
#include "core/schedule/placement/layout.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// A work item that is not a message.
struct TimedWork {
  WorkItem item;
  int slot = -1;  // of the device's schedule; -1: a collective on parameters or gradients
  Nanos start = 0, end = 0;
  int collective = -1;  // index into WorkTimeline::collectives; -1: not a gradient reduction
};

struct WorkTimeline {
  std::vector<std::vector<TimedWork>> lanes;  // by device, in order
  std::vector<std::vector<int>> collectives;  // the devices of each reduction, in time order
};

WorkTimeline TimeWork(const PipelineLayout& layout, const Schedule& schedule,
                      const WorkOptions& options, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LOWERING_WORK_TIMELINE_H_
