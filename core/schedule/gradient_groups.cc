#include "core/schedule/gradient_groups.h"

#include <map>
#include <utility>

namespace dpipe {

std::vector<LayerRange> GradientBuckets(const CostModel& cost, int component, LayerRange layers,
                                        int64_t bucket_bytes) {
  std::vector<LayerRange> buckets;
  int end = layers.end;
  for (int l = layers.end - 1; l >= layers.begin; --l) {
    if (l > layers.begin && cost.GradientBytes(component, {l, end}) < bucket_bytes) continue;
    buckets.push_back({l, end});
    end = l;
  }
  // A last bucket that is not half full joins the one before it: it would only delay the end.
  if (buckets.size() > 1 && cost.GradientBytes(component, buckets.back()) < bucket_bytes / 2) {
    const int begin = buckets.back().begin;
    buckets.pop_back();
    buckets.back().begin = begin;
  }
  return buckets;
}

std::vector<int> TwinStages(const PipelineLayout& layout) {
  std::map<std::pair<int, LayerRange>, int> first;  // by backbone and layers
  std::vector<int> twins;
  for (int s = 0; s < static_cast<int>(layout.stages.size()); ++s) {
    const StagePlacement& stage = layout.stages[s];
    twins.push_back(
        stage.forward_only
            ? -1
            : first.emplace(std::make_pair(layout.chains[stage.chain].backbone, stage.layers), s)
                  .first->second);
  }
  return twins;
}

}  // namespace dpipe
