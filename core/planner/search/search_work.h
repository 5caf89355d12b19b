// What a search's steps take, in simulated instructions: a deterministic stand-in for their time,
// which its budget is counted in.
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

  // To lower, simulate and, where bubbles are filled, fill a plan of `num_devices` devices: those
  // of the shape, or of one group of it.
  int64_t OfPlan(const PipelineShape& shape, int num_devices) const;
  // To cut the backbones: exactly where stages lie in a row, which is quick; else by searches over
  // pairs of boundaries.
  int64_t OfCut(const PipelineShape& shape) const;

 private:
  int64_t OfFilling(const PipelineShape& shape, int num_devices) const;

  const CostModel& cost_;
  const bool fills_;
  int64_t frozen_layers_ = 0;
  int64_t layers_ = 0;          // of all backbones
  int64_t squared_layers_ = 0;  // the sum of their squares
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_SEARCH_SEARCH_WORK_H_
