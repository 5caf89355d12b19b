// Inserts frozen work whose samples change ranks into a plan that has none.       [algorithms.md
// §4]
//
// LowerPlan's fill items keep each sample's chain on one rank. Here each phase says only where a
// range of a component's layers runs. All messages follow from that:
//
//   - FROZEN_VALUES, if another rank continues with a sample;
//   - FROZEN_OUTPUT to a rank whose frozen layers read it;
//   - the exchange of the other outputs, right before the optimizer step, as in LowerPlan.
//
// The first two are sent as soon as the work before them has run.
//
// No deadlock under blocking rendezvous: the lists are built instruction by instruction in one
// order for all ranks, and both ends of a message join their lists at the same moment. The
// instructions of the unfilled plan come in the order of a blocking run, those that can start first
// in the simulation first. A phase comes before the first instruction that any of its pieces must
// precede, and after all earlier phases.
#ifndef DPIPE_CORE_SCHEDULE_LOWERING_WEAVE_H_
#define DPIPE_CORE_SCHEDULE_LOWERING_WEAVE_H_

#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Layers of a frozen component on samples of the next step. Loads them first if the layers begin
// with layer 0.
struct FrozenPiece {
  int rank = 0;
  // Index of the rank's instruction in the unfilled plan, not a message, that the piece precedes.
  // The last one, OPTIMIZER_STEP, if the piece runs after the pipeline.
  int before = 0;
  int component = 0;
  LayerRange layers;
  SampleRange samples;
};

// Pieces that do not wait for each other.
using FrozenPhase = std::vector<FrozenPiece>;

struct WeaveOptions {
  // By rank and instruction of the unfilled plan: its simulated start. Only the order matters.
  std::vector<std::vector<Nanos>> start_ns;
  bool flush_exchange = false;  // see LowerOptions
};

// Returns the plan with the phases in this order. It passes VerifyPlan if the phases run each layer
// once on each sample, layers and sources in order, and memory suffices. Returns InvalidArgument if
// a piece's layers are not the next ones of its samples or a source has not run, and if the
// unfilled plan deadlocks. Time O(instructions log ranks + phases * samples).
absl::StatusOr<Plan> WeaveFrozenWork(const Plan& unfilled, const std::vector<FrozenPhase>& phases,
                                     const WeaveOptions& options, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LOWERING_WEAVE_H_
