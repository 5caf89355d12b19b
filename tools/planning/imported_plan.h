// Plans whose passes come in the order of a schedule file of torch.distributed.pipelining.
#ifndef DPIPE_TOOLS_PLANNING_IMPORTED_PLAN_H_
#define DPIPE_TOOLS_PLANNING_IMPORTED_PLAN_H_

#include <string>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/planner/search.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/schedule.h"

namespace dpipe::tools {

// The name by which candidates of such plans call their schedule.
inline constexpr char kImportedSchedule[] = "imported";

// The schedule of a file; errors begin with the file's name.
absl::StatusOr<Schedule> ReadTorchCsv(const std::string& path);

// The best plan for the file's devices and micro-batches, in pipeline groups of any size, that
// keeps the file's order: the strategy says all but the schedule, and nothing is tuned or moved
// afterwards. At most one call a process: schedules are known by name. InvalidArgument, with both
// values, if `options` ask for other numbers than the file's.
absl::StatusOr<PlanResult> PlanTorchCsv(const std::string& path, Strategy strategy,
                                        const CostModel& cost, PlanOptions options);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PLANNING_IMPORTED_PLAN_H_
