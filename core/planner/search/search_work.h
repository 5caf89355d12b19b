// The work of a search's steps, in simulated instructions: a deterministic proxy for their time, in
// which the budget is counted.
#ifndef DPIPE_CORE_PLANNER_SEARCH_SEARCH_WORK_H_
#define DPIPE_CORE_PLANNER_SEARCH_SEARCH_WORK_H_

#include <cstdint>

#include "core/cost/cost_model.h"
#include "core/planner/pipeline/shape.h"

namespace dpipe {

class SearchWork {
 public:
  // `cost` must outlive this.
  SearchWork(const CostModel& cost, bool fills);

  // Returns the work to lower, simulate and, if bubbles are filled, fill a plan of `num_devices`
  // devices: those of the shape or of one of its groups.
  int64_t OfPlan(const PipelineShape& shape, int num_devices) const;
  // Returns the work to cut the backbones and to make the orders by which cuts are judged. Cutting
  // is exact and quick if each backbone has one stage per device and one copy; otherwise it
  // searches over pairs of boundaries.
  int64_t OfCut(const PipelineShape& shape) const;

 private:
  int64_t OfOrders(const PipelineShape& shape) const;
  int64_t OfFilling(const PipelineShape& shape, int num_devices) const;

  const CostModel& cost_;
  const bool fills_;
  int64_t frozen_layers_ = 0;
  int64_t layers_ = 0;          // of all backbones
  int64_t squared_layers_ = 0;  // the sum of their squares
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_SEARCH_WORK_H_
