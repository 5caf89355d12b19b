// The cuts with the least largest stage, for any cost of a stage.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_MIN_MAX_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_MIN_MAX_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/range.h"

namespace dpipe {

// `cost` of a stage never falls when a layer is added. Of equally good cuts, each stage in turn
// gets the fewest layers with which the stages after it are still at their best. 1 <= num_stages <=
// num_layers. O(S L W) for the W ends of a stage that are tried.
std::vector<LayerRange> LeastLargestStage(
    int num_layers, int num_stages, const std::function<int64_t(int stage, LayerRange)>& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_MIN_MAX_H_
