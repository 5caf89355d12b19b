// Roughly how long a step of a shape takes, before anything is partitioned: what orders a search.
//
// Every device gets an even part of each backbone, the one that sets the pace half a layer more,
// unless the busiest link is slower still. A micro-batch's way over all links and back is not
// hidden. The bubble is that of the schedule itself at even times, simulated once for a few
// micro-batches and scaled; the all-reduce counts where it is longer than the last micro-batch's
// backward pass. The best candidates are then simulated.
#ifndef DPIPE_CORE_PLANNER_COSTS_ESTIMATE_H_
#define DPIPE_CORE_PLANNER_COSTS_ESTIMATE_H_

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/planner/pipeline/pipeline_cut.h"
#include "core/planner/pipeline/shape.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Not thread-safe: keeps what it has simulated.
class StepEstimator {
 public:
  // `cost` must outlive this.
  StepEstimator(const Strategy& strategy, const CostModel& cost);

  Nanos Estimate(const PipelineShape& shape);
  // The same with recomputation of that share of the forward passes.
  Nanos EstimateRecomputing(const PipelineShape& shape, double share);
  // What hardly any plan of the shape is faster than: with stages even, messages and reductions
  // free, all devices of the mean speed, and that share of the schedule's idle time.
  Nanos Ideal(const PipelineShape& shape, double ramp_share);
  // Of a pipeline that has been cut: the schedule's makespan with the stages' times, messages free,
  // instead of the even bubble and the half layer. O(slots).
  Nanos EstimateCut(const PipelineShape& shape, const PipelineCut& cut, const Schedule& schedule);

 private:
  // What the passes of a micro-batch take over all layers of all backbones.
  struct Passes {
    double forward = 0, input_grad = 0, weight_grad = 0;
    double total() const { return forward + input_grad + weight_grad; }
  };

  // What the estimates have in common, beside the time the passes take.
  Nanos Finish(const PipelineShape& shape, const Passes& passes, double pipeline_ns,
               bool syncs = true);
  Passes PassesOf(const PipelineShape& shape);
  // The mean, over the pipeline's devices, of their slowest ranks' speeds: what stages that are cut
  // to fit them run at.
  double SpeedOf(const PipelineShape& shape);
  Nanos EstimateOf(const PipelineShape& shape, const Passes& passes);
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
  // Messages of the first micro-batch on its way in and of the last one on its way out.
  double LinkPath(const PipelineShape& shape);
  // The share of a node's interfaces that the ranks of a stage use, in interfaces.
  double InterfacesOf(const PipelineShape& shape) const;
  double FrozenWork(const PipelineShape& shape) const;  // of a group, over all of its devices
  double ExposedSync(const PipelineShape& shape, double backward_ns) const;

  const CostModel& cost_;
  const bool fills_;
  const bool cached_;
  const bool recomputes_;
  const double forward_passes_;  // with self-conditioning, of an average step
  double mean_speed_ = 1, least_speed_ = 1;
  std::map<std::pair<int, int>, double> speeds_;  // by D and S
  std::map<std::tuple<std::string, int, int, int>, double> ramps_;
  std::map<std::tuple<std::string, int, int>, std::vector<Crossing>> crossings_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_COSTS_ESTIMATE_H_
