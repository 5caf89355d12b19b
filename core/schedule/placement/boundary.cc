#include "core/schedule/placement/boundary.h"

#include <algorithm>

#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

// Returns the stage of a lap, given as stages [begin, end), that holds a layer.
int StageOf(const std::vector<BoundaryStage>& stages, int begin, int end, int layer) {
  while (begin + 1 < end && stages[begin].layers.end <= layer) ++begin;
  return begin;
}

}  // namespace

ChainBoundaries::ChainBoundaries(const CostModel& cost, int component,
                                 const std::vector<BoundaryStage>& stages)
    : crossings_(stages.empty() ? 0 : stages.size() - 1) {
  const int count = static_cast<int>(stages.size());
  int first_lap_end = 0;
  while (first_lap_end < count && stages[first_lap_end].forward_only) ++first_lap_end;
  const ComponentProfile& profile = cost.profile().components(component);
  if (first_lap_end > 0) AddLap(profile, stages, 0, first_lap_end);
  AddLap(profile, stages, first_lap_end, count);
  std::stable_sort(kept_.begin(), kept_.end(), [](const KeptValue& a, const KeptValue& b) {
    return a.value != b.value ? a.value < b.value : a.to < b.to;
  });
  if (first_lap_end > 0 && first_lap_end < count) {
    crossings_[first_lap_end - 1].forward_bytes = cost.SelfConditioningBytesPerSample(component);
  }
}

void ChainBoundaries::AddLap(const ComponentProfile& component,
                             const std::vector<BoundaryStage>& stages, int begin, int end) {
  for (int v = 0; v < component.values_size(); ++v) {
    const ValueProfile& value = component.values(v);
    if (value.producer_layer() < 0) continue;
    const int producer = StageOf(stages, begin, end, value.producer_layer());
    int last_elsewhere = producer, reader = producer;
    for (int layer : value.consumer_layers()) {
      reader = StageOf(stages, reader, end, layer);
      if (stages[reader].device != stages[producer].device) last_elsewhere = reader;
    }
    const int last_reader = reader;
    const bool has_gradient = value.has_gradient() && !stages[producer].forward_only;
    const bool stays = last_elsewhere == producer;
    int last_kept = reader = producer;
    for (int layer : value.consumer_layers()) {
      reader = StageOf(stages, reader, end, layer);
      if (stages[reader].device != stages[producer].device || reader == last_kept) continue;
      last_kept = reader;
      kept_.push_back({v, producer, reader, has_gradient && stays, value.bytes_per_sample()});
    }
    for (int k = producer; k < last_elsewhere; ++k) {
      crossings_[k].values.push_back(v);
      crossings_[k].forward_bytes += value.bytes_per_sample();
    }
    for (int k = producer; has_gradient && !stays && k < last_reader; ++k) {
      crossings_[k].gradient_bytes += value.bytes_per_sample();
    }
  }
}

ChainBoundaries BoundariesOf(const Plan& plan, int chain, const CostModel& cost) {
  const PipelineChain& in_plan = plan.chains(chain);
  std::vector<BoundaryStage> stages;
  for (int k = 0; k < in_plan.num_stages(); ++k) {
    const Stage& stage = plan.stages(in_plan.first_stage() + k);
    // Devices are disjoint sets of ranks, so the first rank identifies the device.
    stages.push_back({LayersIn(stage), stage.ranks(0), stage.forward_only()});
  }
  return ChainBoundaries(cost, in_plan.component(), stages);
}

}  // namespace dpipe
