// Plans whose weights lag behind: made of synchronous ones, and checked.      [algorithms.md §8]
//
// A relaxed plan has the passes and messages of the synchronous plan of the same schedule, one
// OPTIMIZER_STEP for each update and, where virtual workers share updates, SYNC_PARAMS. It knows
//
//   PipeDream  (Harlap et al., arXiv 1806.03377)  stashed weights, an update every micro-batch
//   XPipe      (Guan et al., arXiv 1911.04610)    predicted weights, an update every mini-batch of
//                                                 several micro-batches
//   HetPipe    (Park et al., arXiv 2005.14038)    stashed weights in each virtual worker, whose
//                                                 updates are shared every wave, at clock distance
//                                                 0; their mean is taken and not their sum, because
//                                                 Adam's steps do not shrink with the share of the
//                                                 batch that they are made of
//
// The published ones never flush. Here a step's list begins with the synchronous schedule's warm-up
// and ends with its cool-down, so the pipeline drains once a step: with p stages, M micro-batches
// and passes of one unit a step takes 2 (M + p - 1) units and not 2 M. Throughput is understated by
// so much; which weights a pass sees is as published within a step, and current where one begins.
#ifndef DPIPE_CORE_SCHEDULE_LOWERING_RELAXATION_H_
#define DPIPE_CORE_SCHEDULE_LOWERING_RELAXATION_H_

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Adds the updates right after the messages that follow each last pass of theirs, so that no group
// of messages is cut. InvalidArgument, with what is in the way, where the plan cannot be relaxed
// (CheckRelaxation) or its micro-batches do not divide into updates.
absl::StatusOr<Plan> RelaxPlan(Plan plan, const Relaxation& relaxation, const CostModel& cost);

// InvalidArgument unless a plan with a relaxation has what one needs: one chain, one stage a rank,
// no sharding, no forward-only stages, no global norm, one rank a stage or updates that are shared,
// and no recomputation where weights are predicted (the second forward pass would see others).
absl::Status CheckRelaxation(const Plan& plan);

// The updates of one rank in a step of a relaxed plan.
int UpdatesPerStep(const Plan& plan);

// Copies of its weights that a rank keeps at most besides the current ones: stashed versions, or a
// predicted one, and what sharing updates takes. 0 for synchronous plans.
int WeightCopies(const Plan& plan, int rank);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LOWERING_RELAXATION_H_
