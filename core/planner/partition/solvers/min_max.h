// Cuts that minimise the largest stage, for any cost of a stage.
#ifndef DPIPE_CORE_PLANNER_PARTITION_SOLVERS_MIN_MAX_H_
#define DPIPE_CORE_PLANNER_PARTITION_SOLVERS_MIN_MAX_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/range.h"

namespace dpipe {

// Returns the cuts. `cost` must not fall when a layer is added to a stage. Of equally good cuts,
// each stage in turn gets the minimum number of layers with which the later stages are still at
// their best. 1 <= num_stages <= num_layers. O(S L W) if W ends of a stage are tried.
std::vector<LayerRange> MinimizeLargestStage(
    int num_layers, int num_stages, const std::function<int64_t(int stage, LayerRange)>& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_SOLVERS_MIN_MAX_H_
