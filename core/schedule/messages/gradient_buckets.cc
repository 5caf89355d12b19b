#include "core/schedule/messages/gradient_buckets.h"

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
  // A small final bucket would only delay the end of the reduction.
  if (buckets.size() > 1 && cost.GradientBytes(component, buckets.back()) < bucket_bytes / 2) {
    const int begin = buckets.back().begin;
    buckets.pop_back();
    buckets.back().begin = begin;
  }
  return buckets;
}

}  // namespace dpipe
