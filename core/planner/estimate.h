// Roughly how long a step of a shape takes, before anything is partitioned: what orders a search.
//
// Every device gets an even part of each backbone. The bubble is that of the schedule itself at
// those even times, simulated once for a few micro-batches and scaled; messages are left out, the
// all-reduce counts where it is longer than the last micro-batch's backward pass. It errs by what
// layers cannot be divided into, which is why the best candidates are then simulated.
#ifndef DPIPE_CORE_PLANNER_ESTIMATE_H_
#define DPIPE_CORE_PLANNER_ESTIMATE_H_

#include <map>
#include <string>
#include <tuple>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/shape.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// Not thread-safe: keeps what it has simulated.
class StepEstimator {
 public:
  // `cost` must outlive this.
  StepEstimator(const Strategy& strategy, const CostModel& cost);

  Nanos Estimate(const PipelineShape& shape);

 private:
  // What the passes of a micro-batch take over all layers of all backbones.
  struct Passes {
    double forward = 0, input_grad = 0, weight_grad = 0;
    double total() const { return forward + input_grad + weight_grad; }
  };

  Passes PassesOf(const PipelineShape& shape) const;
  // Idle time of a device, as a multiple of its work on one micro-batch.
  double Ramp(const PipelineShape& shape, const Passes& passes);
  double FrozenWork(const PipelineShape& shape) const;  // of a group, over all of its devices
  double ExposedSync(const PipelineShape& shape, double backward_ns) const;

  const CostModel& cost_;
  const bool fills_;
  const bool cached_;
  const bool recomputes_;
  std::map<std::tuple<std::string, int, int, int>, double> ramps_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_ESTIMATE_H_
