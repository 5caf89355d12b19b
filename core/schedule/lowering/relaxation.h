// Plans with delayed weight updates: made from synchronous plans, and checked. [algorithms.md §8]
//
// A relaxed plan has the passes and messages of the synchronous plan of the same schedule, one
// OPTIMIZER_STEP per update and, if virtual workers share updates, SYNC_PARAMS. Supported:
//
//   PipeDream  (Harlap et al., arXiv 1806.03377)  stashed weights, one update per micro-batch
//   XPipe      (Guan et al., arXiv 1911.04610)    predicted weights, one update per mini-batch of
//                                                 several micro-batches
//   HetPipe    (Park et al., arXiv 2005.14038)    stashed weights in each virtual worker; updates
//                                                 are shared once per wave, at clock distance 0,
//                                                 as their mean and not their sum: Adam's steps do
//                                                 not shrink with a worker's share of the batch
//
// The published systems never flush. Here each step begins with the synchronous schedule's warm-up
// and ends with its cool-down, so the pipeline drains once per step. With p stages, M micro-batches
// and passes of unit time, a step takes 2 (M + p - 1) instead of 2 M, and throughput is understated
// by that factor. Within a step, each pass sees the weights that the papers describe; at the start
// of a step, it sees the current weights.
// so much; which weights a pass sees is as published within a step, and current where one begins.
#ifndef DPIPE_CORE_SCHEDULE_LOWERING_RELAXATION_H_
#define DPIPE_CORE_SCHEDULE_LOWERING_RELAXATION_H_

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Returns the relaxed plan. Each update is inserted after the messages that follow its last pass,
// so that no group of messages is split. InvalidArgument, with the reason, if CheckRelaxation fails
// or the micro-batches do not divide evenly into updates.
absl::StatusOr<Plan> RelaxPlan(Plan plan, const Relaxation& relaxation, const CostModel& cost);

// OK if the plan has no relaxation, or meets its requirements. Otherwise InvalidArgument.
// A relaxed plan requires
//   - one chain, and one stage per rank;
//   - no sharded or forward-only stages, and no global norm;
//   - one rank per stage, or updates that are shared;
//   - no recomputation if weights are predicted: the second forward pass would see other weights.
absl::Status CheckRelaxation(const Plan& plan);

// Returns the number of updates of one rank in one step of a relaxed plan.
int UpdatesPerStep(const Plan& plan);

// Returns the maximum number of weight copies that a rank keeps beyond the current weights: stashed
// versions or one predicted copy, plus 2 if it shares updates. 0 for synchronous plans.
int WeightCopies(const Plan& plan, int rank);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LOWERING_RELAXATION_H_
