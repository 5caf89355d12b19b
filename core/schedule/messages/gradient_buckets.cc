#include "core/schedule/messages/gradient_buckets.h"

namespace dpipe {
namespace {

// Returns each layer as a part, from the last to the first.
std::vector<LayerRange> SingleLayers(LayerRange layers) {
  std::vector<LayerRange> parts;
  for (int l = layers.end - 1; l >= layers.begin; --l) parts.push_back({l, l + 1});
  return parts;
}

}  // namespace

std::vector<LayerRange> JoinToBuckets(const std::vector<LayerRange>& parts, int64_t bucket_bytes,
                                      const std::function<int64_t(LayerRange)>& bytes_of) {
  std::vector<LayerRange> buckets;
  if (parts.empty()) return buckets;
  int end = parts[0].end;
  for (const LayerRange& part : parts) {
    const bool is_first = part.begin == parts.back().begin;
    if (!is_first && bytes_of({part.begin, end}) < bucket_bytes) continue;
    buckets.push_back({part.begin, end});
    end = part.begin;
  }
  // A small final bucket would only delay the end of the reduction.
  if (buckets.size() > 1 && bytes_of(buckets.back()) < bucket_bytes / 2) {
    const int begin = buckets.back().begin;
    buckets.pop_back();
    buckets.back().begin = begin;
  }
  return buckets;
}

std::vector<LayerRange> GradientBuckets(const CostModel& cost, int component, LayerRange layers,
                                        int64_t bucket_bytes) {
  return JoinToBuckets(SingleLayers(layers), bucket_bytes,
                       [&](LayerRange bucket) { return cost.GradientBytes(component, bucket); });
}

std::vector<LayerRange> WeightBuckets(const CostModel& cost, int component, LayerRange layers,
                                      int64_t bucket_bytes) {
  return JoinToBuckets(SingleLayers(layers), bucket_bytes,
                       [&](LayerRange bucket) { return cost.ParameterBytes(component, bucket); });
}

}  // namespace dpipe
