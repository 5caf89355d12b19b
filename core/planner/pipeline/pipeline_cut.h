// How the backbones are cut and seated: the partitions of all backbones, by stage of the schedule.
#ifndef DPIPE_CORE_PLANNER_PIPELINE_PIPELINE_CUT_H_
#define DPIPE_CORE_PLANNER_PIPELINE_PIPELINE_CUT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/range.h"
#include "core/cost/cost_model.h"
#include "core/planner/partition/partition.h"
#include "core/planner/pipeline/shape.h"
#include "core/schedule/placement/layout.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct PipelineCut {
  // By backbone: the layers of each stage of one chain, without its forward-only lap.
  std::vector<std::vector<LayerRange>> stages;
  std::vector<int> replicas;    // by schedule device
  std::vector<int> seating;     // schedule devices in the order of their ranks
  std::vector<bool> recompute;  // by schedule device
  // By stage of the schedule: the boundaries of the blocks that it recomputes. Empty: stages are
  // one block each, which can be restored before their gradients arrive.
  std::vector<std::vector<int>> recompute_cuts;
  // The order of the passes to keep. Null: the order that the shape's generator makes from the
  // stages' times.
  std::shared_ptr<const Schedule> schedule;
  int recv_lookahead = 1;   // LowerOptions.recv_lookahead
  Nanos bottleneck_ns = 0;  // maximum over the partitions
  std::string note;         // first Partition.note that is not empty
};

// Joins the partitions of all backbones. Returns InvalidArgument if they seat the schedule's
// devices differently.
absl::StatusOr<PipelineCut> JoinPartitions(const std::vector<Partition>& partitions);

// Returns the layout of the cut pipeline on `num_devices` ranks.
absl::StatusOr<PipelineLayout> LayoutOf(const Schedule& schedule, const PipelineCut& cut,
                                        const PipelineShape& shape, int num_devices);

// Divides the stages that recompute on some devices of the schedule into the blocks that need least
// memory (core/cost/recompute_blocks.h).
void DivideIntoBlocks(const Schedule& schedule, const std::vector<bool>& devices,
                      const CostModel& cost, PipelineCut* cut);

// Returns the seats, by schedule device.
std::vector<DeviceSeat> SeatsOf(const PipelineCut& cut);

// Returns the pass times of a stage of these layers on a seat. Recomputation is part of the input
// gradient.
PassCosts PassCostsOf(const CostModel& cost, int component, LayerRange layers,
                      const DeviceSeat& seat, int micro_batch_size);

// Returns the pass times of each stage on its device, by stage of the schedule.
std::vector<PassCosts> StagePassCosts(const Schedule& schedule, const PipelineCut& cut,
                                      const PipelineShape& shape, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PIPELINE_PIPELINE_CUT_H_
