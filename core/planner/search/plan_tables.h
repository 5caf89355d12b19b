// Tables and schedules that all searches for one plan share.
#ifndef DPIPE_CORE_PLANNER_SEARCH_PLAN_TABLES_H_
#define DPIPE_CORE_PLANNER_SEARCH_PLAN_TABLES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "core/cost/cost_model.h"
#include "core/planner/costs/memory_bound.h"
#include "core/planner/costs/stage_costs.h"
#include "core/planner/pipeline/shape.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Depends only on the model and the cluster. Not thread-safe.
class PlanTables {
 public:
  explicit PlanTables(const CostModel& cost);  // `cost` must outlive this

  const std::vector<std::shared_ptr<const BackboneTables>>& backbones() const { return backbones_; }
  MemoryBound& memory_bound() { return memory_bound_; }

  // Returns the shape's schedule at unit costs: its stages and their devices are those of every
  // order. Errors are those of MakePipelineSchedule. Keeps schedules until they have too many
  // slots.
  absl::StatusOr<std::shared_ptr<const Schedule>> StructureOf(const PipelineShape& shape,
                                                              bool self_conditioning);

 private:
  using StructureKey = std::tuple<std::string, int, int, int, int, bool>;

  std::vector<std::shared_ptr<const BackboneTables>> backbones_;
  MemoryBound memory_bound_;
  std::map<StructureKey, std::shared_ptr<const Schedule>> structures_;
  int64_t num_slots_ = 0;  // of all structures
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_PLAN_TABLES_H_
