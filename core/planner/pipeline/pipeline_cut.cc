#include "core/planner/pipeline/pipeline_cut.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/planner/pipeline/pipeline_schedule.h"

namespace dpipe {
namespace {

// Returns the layers by stage of the schedule. A lap without gradients has those of the lap with
// them.
std::vector<LayerRange> LayersByStage(const Schedule& schedule, const PipelineCut& cut) {
  std::vector<LayerRange> layers;
  for (const ScheduleChain& chain : schedule.chains()) {
    const std::vector<LayerRange>& stages = cut.stages[chain.backbone];
    for (size_t k = 0; k < chain.devices.size(); ++k) layers.push_back(stages[k % stages.size()]);
  }
  return layers;
}

std::vector<int> SeatingOf(const std::vector<DeviceSeat>& seats) {
  std::vector<int> seating(seats.size());
  for (size_t d = 0; d < seats.size(); ++d) seating[d] = static_cast<int>(d);
  std::sort(seating.begin(), seating.end(),
            [&](int a, int b) { return seats[a].first_rank < seats[b].first_rank; });
  return seating;
}

}  // namespace

absl::StatusOr<PipelineCut> JoinPartitions(const std::vector<Partition>& partitions) {
  PipelineCut cut;
  for (size_t b = 0; b < partitions.size(); ++b) {
    const std::vector<DeviceSeat>& seats = partitions[b].seats;
    if (b == 0) {
      for (const DeviceSeat& seat : seats) cut.replicas.push_back(seat.replicas);
      cut.recompute.assign(seats.size(), false);
      cut.seating = SeatingOf(seats);
    }
    for (size_t d = 0; d < seats.size(); ++d) {
      const DeviceSeat& first = partitions[0].seats[d];
      if (seats[d].replicas != first.replicas || seats[d].first_rank != first.first_rank) {
        return absl::InvalidArgumentError(
            absl::StrCat("device ", d, " has ", seats[d].replicas, " ranks starting at rank ",
                         seats[d].first_rank, " for backbone ", b, " but ", first.replicas,
                         " starting at rank ", first.first_rank, " for the first"));
      }
      if (seats[d].recompute) cut.recompute[d] = true;
    }
    cut.stages.push_back(partitions[b].stages);
    if (cut.note.empty()) cut.note = partitions[b].note;
    cut.bottleneck_ns = std::max(cut.bottleneck_ns, partitions[b].bottleneck_ns);
  }
  return cut;
}

absl::StatusOr<PipelineLayout> LayoutOf(const Schedule& schedule, const PipelineCut& cut,
                                        const PipelineShape& shape, int num_devices) {
  LayoutOptions options;
  options.num_devices = num_devices;
  options.replicas = cut.replicas;
  options.seating = cut.seating;
  options.layers = LayersByStage(schedule, cut);
  options.micro_batch_sizes.assign(cut.stages.size(), shape.micro_batch_size());
  for (int s = 0; s < schedule.num_stages(); ++s) {
    options.recompute.push_back(!schedule.IsForwardOnly(s) && cut.recompute[schedule.DeviceOf(s)]);
  }
  options.recompute_cuts = cut.recompute_cuts;
  return MakeLayout(schedule, options);
}

void DivideIntoBlocks(const Schedule& schedule, const std::vector<bool>& devices,
                      const CostModel& cost, PipelineCut* cut) {
  const int in_flight = BlocksInFlight(schedule);
  const std::vector<LayerRange> layers = LayersByStage(schedule, *cut);
  cut->recompute_cuts.assign(schedule.num_stages(), {});
  for (int s = 0; s < schedule.num_stages() && in_flight > 0; ++s) {
    const int device = schedule.DeviceOf(s);
    if (schedule.IsForwardOnly(s) || !devices[device] || !cut->recompute[device]) continue;
    const int backbone = schedule.chains()[schedule.ChainOf(s)].backbone;
    cut->recompute_cuts[s] = cost.Blocks(cost.backbones()[backbone]).Cuts(layers[s], in_flight);
  }
}

std::vector<DeviceSeat> SeatsOf(const PipelineCut& cut) {
  std::vector<DeviceSeat> seats(cut.replicas.size());
  int next_rank = 0;
  for (int device : cut.seating) {
    seats[device] = {next_rank, cut.replicas[device], cut.recompute[device]};
    next_rank += cut.replicas[device];
  }
  return seats;
}

PassCosts PassCostsOf(const CostModel& cost, int component, LayerRange layers,
                      const DeviceSeat& seat, int micro_batch_size) {
  const LayerTimes& times = cost.Times(component, std::max(1, micro_batch_size / seat.replicas));
  PassCosts passes;
  passes.forward = cost.OnRank(times.Forward(layers), seat.first_rank);
  passes.input_grad = cost.OnRank(times.InputGrad(layers), seat.first_rank);
  passes.weight_grad = cost.OnRank(times.WeightGrad(layers), seat.first_rank);
  if (seat.recompute) passes.input_grad += passes.forward;
  return passes;
}

std::vector<PassCosts> StagePassCosts(const Schedule& schedule, const PipelineCut& cut,
                                      const PipelineShape& shape, const CostModel& cost) {
  const std::vector<DeviceSeat> seats = SeatsOf(cut);
  const std::vector<LayerRange> layers = LayersByStage(schedule, cut);
  std::vector<PassCosts> costs;
  for (int s = 0; s < schedule.num_stages(); ++s) {
    const int component = cost.backbones()[schedule.chains()[schedule.ChainOf(s)].backbone];
    costs.push_back(PassCostsOf(cost, component, layers[s], seats[schedule.DeviceOf(s)],
                                shape.micro_batch_size()));
  }
  return costs;
}

}  // namespace dpipe
