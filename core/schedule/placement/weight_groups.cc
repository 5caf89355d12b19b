#include "core/schedule/placement/weight_groups.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/proto/instruction_parts.h"

namespace dpipe {

std::vector<WeightGroups::StageWeights> WeightGroups::StagesOf(const Plan& plan) {
  std::vector<StageWeights> stages;
  for (const Stage& stage : plan.stages()) {
    stages.push_back({stage.component(),
                      LayersIn(stage),
                      stage.forward_only(),
                      {stage.ranks().begin(), stage.ranks().end()}});
  }
  return stages;
}

std::vector<WeightGroups::StageWeights> WeightGroups::StagesOf(const PipelineLayout& layout) {
  std::vector<StageWeights> stages;
  for (const StagePlacement& stage : layout.stages) {
    stages.push_back({layout.chains[stage.chain].backbone, stage.layers, stage.forward_only, {}});
    for (int group = 0; group < layout.num_groups(); ++group) {
      for (int i = 0; i < layout.replicas[stage.device]; ++i) {
        stages.back().ranks.push_back(RankAt(layout, {group, stage.device, i}));
      }
    }
  }
  return stages;
}

WeightGroups::WeightGroups(const Plan& plan) : WeightGroups(StagesOf(plan)) {}
WeightGroups::WeightGroups(const PipelineLayout& layout) : WeightGroups(StagesOf(layout)) {}

WeightGroups::WeightGroups(const std::vector<StageWeights>& stages) {
  std::map<std::pair<int, LayerRange>, int> numbers;  // by backbone and layers
  for (int s = 0; s < static_cast<int>(stages.size()); ++s) {
    const StageWeights& stage = stages[s];
    const auto [number, is_new] =
        numbers.emplace(std::make_pair(stage.backbone, stage.layers), size());
    if (is_new) groups_.emplace_back();
    of_stage_.push_back(number->second);
    if (stage.forward_only) continue;
    WeightGroup& group = groups_[of_stage_.back()];
    group.stages.push_back(s);
    group.ranks.insert(group.ranks.end(), stage.ranks.begin(), stage.ranks.end());
  }
  for (WeightGroup& group : groups_) std::sort(group.ranks.begin(), group.ranks.end());
}

}  // namespace dpipe
