// Estimates the step of a shape before anything is partitioned. A search explores shapes in this
// order.
//
//   - Every device gets an even share of each backbone; the slowest one gets half a layer more. If
//     the busiest link is slower still, it sets the pace.
//   - One micro-batch's way over all links and back is not hidden.
//   - The bubble is that of the schedule at even times, simulated once for a few micro-batches and
//     scaled.
//   - The all-reduce counts as far as it is longer than the last micro-batch's backward pass.
//   - ZeRO-3 on one stage takes at least as long as the gathers of its weights, per pass.
//
// The best candidates are then simulated.
#ifndef DPIPE_CORE_PLANNER_COSTS_ESTIMATE_H_
#define DPIPE_CORE_PLANNER_COSTS_ESTIMATE_H_

#include <map>
#include <memory>
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

// What estimates for one model and one cluster share, whatever the strategy.
struct EstimateTables {
  // Bytes per sample sent from device to device under an even cut, scaled by the share of
  // micro-batches of a chain if copies share them.
  struct Crossing {
    int from = 0, to = 0;
    double forward_bytes = 0, gradient_bytes = 0;
  };
  // Schedules at unit costs by name, devices, micro-batches and stages per device. Null if there is
  // none.
  std::map<std::tuple<std::string, int, int, int>, std::shared_ptr<const Schedule>> schedules;
  std::map<std::tuple<std::string, int, int>, std::vector<Crossing>> crossings;
};

// Not thread-safe: caches what it has simulated.
class StepEstimator {
 public:
  // `cost` must outlive this. `tables`: null for its own.
  StepEstimator(const Strategy& strategy, const CostModel& cost,
                std::shared_ptr<EstimateTables> tables = nullptr);

  Nanos Estimate(const PipelineShape& shape);
  // Same, with recomputation of that share of the forward passes.
  Nanos EstimateRecomputing(const PipelineShape& shape, double share);
  // Returns a step that hardly any plan of the shape beats: even stages, free messages and
  // reductions, all devices at the mean speed, and `ramp_share` of the schedule's idle time.
  Nanos Ideal(const PipelineShape& shape, double ramp_share);
  // Estimates the step of a pipeline that has been cut. Uses the schedule's makespan at the stages'
  // times, with free messages, instead of the even bubble and the half layer. O(slots).
  Nanos EstimateCut(const PipelineShape& shape, const PipelineCut& cut, const Schedule& schedule);

 private:
  // Pass times of one micro-batch over all layers of all backbones.
  struct Passes {
    double forward = 0, input_grad = 0, weight_grad = 0;
    double total() const { return forward + input_grad + weight_grad; }
  };

  // Adds optimizer step, exposed gradient syncs (if `syncs`) and frozen work to `pipeline_ns`.
  Nanos Finish(const PipelineShape& shape, const Passes& passes, double pipeline_ns,
               bool syncs = true);
  Passes PassesOf(const PipelineShape& shape);
  // Returns the mean, over the pipeline's devices, of the speeds of their slowest ranks. Stages
  // that are cut to fit the devices run at this speed.
  double SpeedOf(const PipelineShape& shape);
  // `num_passes`: how often a micro-batch passes through the layers.
  Nanos EstimateOf(const PipelineShape& shape, const Passes& passes, double num_passes);
  // Returns the idle time of a device, as a multiple of its work on one micro-batch.
  double Ramp(const PipelineShape& shape, const Passes& passes);
  // Returns the ratio of the longest stage to the mean stage, minus one.
  double Unevenness(const PipelineShape& shape) const;
  const std::vector<EstimateTables::Crossing>& Crossings(const PipelineShape& shape);
  double LinkPace(const PipelineShape& shape);
  // Returns the time of the first micro-batch's messages on its way in and the last one's on its
  // way out.
  double LinkPath(const PipelineShape& shape);
  // Returns how many of a node's interfaces the ranks of a stage use.
  double InterfacesOf(const PipelineShape& shape) const;
  double FrozenWork(const PipelineShape& shape) const;  // of a group, summed over its devices
  double ExposedSync(const PipelineShape& shape, double backward_ns) const;
  // Returns the time of gathering all weights before each of so many passes per micro-batch; 0 if
  // they are not gathered pass by pass.
  double Gathers(const PipelineShape& shape, double num_passes) const;

  const CostModel& cost_;
  const bool fills_;
  const bool cached_;
  const bool recomputes_;
  const double forward_passes_;  // of an average step, with self-conditioning
  double mean_speed_ = 1, least_speed_ = 1;
  std::map<std::pair<int, int>, double> speeds_;  // by D and S
  std::map<std::tuple<std::string, int, int, int>, double> ramps_;
  const std::shared_ptr<EstimateTables> tables_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_COSTS_ESTIMATE_H_
