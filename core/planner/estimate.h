// Roughly how long a step of a shape takes, before anything is partitioned: what orders a search.
//
// Every device gets an even part of each backbone, the one that sets the pace half a layer more,
// unless the busiest link is slower still. The bubble is that of the schedule itself at even times,
// simulated once for a few micro-batches and scaled; the all-reduce counts where it is longer than
// the last micro-batch's backward pass. The best candidates are then simulated.
#ifndef DPIPE_CORE_PLANNER_ESTIMATE_H_
#define DPIPE_CORE_PLANNER_ESTIMATE_H_

#include <map>
#include <string>
#include <tuple>
#include <vector>

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
  // Of the longest stage over the mean, less one.
  double Unevenness(const PipelineShape& shape) const;
  // What one sample sends from device to device under an even cut, less where copies share it.
  struct Crossing {
    int from = 0, to = 0;
    double forward_bytes = 0, gradient_bytes = 0;
  };
  const std::vector<Crossing>& Crossings(const PipelineShape& shape);
  double LinkPace(const PipelineShape& shape);
  double FrozenWork(const PipelineShape& shape) const;  // of a group, over all of its devices
  double ExposedSync(const PipelineShape& shape, double backward_ns) const;

  const CostModel& cost_;
  const bool fills_;
  const bool cached_;
  const bool recomputes_;
  std::map<std::tuple<std::string, int, int, int>, double> ramps_;
  std::map<std::tuple<std::string, int, int>, std::vector<Crossing>> crossings_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_ESTIMATE_H_
