#include "core/cost/recompute_blocks.h"

#include <algorithm>
#include <limits>

namespace dpipe {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 2;

// Calls visit(block) for the blocks of `layers`, from the first to the last.
template <typename Visit>
void ForBlocks(LayerRange layers, const std::vector<int>& cuts, const Visit& visit) {
  int begin = layers.begin;
  for (int cut : cuts) {
    visit(LayerRange{begin, cut});
    begin = cut;
  }
  visit(LayerRange{begin, layers.end});
}

}  // namespace

RecomputeBlocks::RecomputeBlocks(const ComponentProfile& component)
    : values_(component.layers_size()), saved_(1, 0) {
  for (const LayerProfile& layer : component.layers()) {
    saved_.push_back(saved_.back() + layer.saved_bytes_per_sample());
  }
  for (const ValueProfile& value : component.values()) {
    if (value.producer_layer() < 0 || value.consumer_layers().empty()) continue;
    values_[value.producer_layer()].push_back(
        {value.bytes_per_sample(),
         {value.consumer_layers().begin(), value.consumer_layers().end()}});
  }
}

int64_t RecomputeBlocks::HandedOnBytes(LayerRange block, int end) const {
  int64_t bytes = 0;
  for (int l = block.begin; l < block.end; ++l) {
    for (const Value& value : values_[l]) {
      const auto reader = std::lower_bound(value.readers.begin(), value.readers.end(), block.end);
      if (reader != value.readers.end() && *reader < end) bytes += value.bytes;
    }
  }
  return bytes;
}

RecomputeNeed RecomputeBlocks::NeedOf(LayerRange layers, const std::vector<int>& cuts) const {
  RecomputeNeed need;
  std::vector<LayerRange> blocks;
  ForBlocks(layers, cuts, [&](LayerRange block) { blocks.push_back(block); });
  int64_t not_needed = 0;  // handed on by this block and later ones
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    const int64_t handed_on = HandedOnBytes(*block, layers.end);
    not_needed += handed_on;
    need.handed_on += handed_on;
    need.restored = std::max(need.restored, saved_[block->end] - saved_[block->begin] - not_needed);
  }
  return need;
}

std::vector<int> RecomputeBlocks::Cuts(LayerRange layers, int in_flight) const {
  std::call_once(once_, [this] { divisions_ = MakeDivisions(); });
  std::vector<int> best;
  int64_t least = NeedOf(layers, best).WithInFlight(in_flight);
  for (const std::vector<int>& division : divisions_) {
    const auto begin = std::upper_bound(division.begin(), division.end(), layers.begin);
    const auto end = std::lower_bound(begin, division.end(), layers.end);
    if (begin == end) continue;
    const std::vector<int> cuts(begin, end);
    const int64_t need = NeedOf(layers, cuts).WithInFlight(in_flight);
    if (need >= least) continue;
    least = need;
    best = cuts;
  }
  return best;
}

std::vector<std::vector<int>> RecomputeBlocks::MakeDivisions() const {
  const int count = static_cast<int>(values_.size());
  int64_t largest = 0;
  for (int l = 0; l < count; ++l) largest = std::max(largest, saved_[l + 1] - saved_[l]);
  std::vector<int64_t> limits;  // of what a block saves
  for (int64_t limit = saved_[count] * 2 / 3; limit > largest; limit = limit * 2 / 3) {
    limits.push_back(limit);
  }
  if (largest == 0) return {};
  limits.push_back(largest);
  // By division: the least bytes handed on at the boundaries up to c, if c is one; and the boundary
  // before c. The component's ends count as boundaries.
  std::vector<std::vector<int64_t>> least(limits.size(), std::vector<int64_t>(count + 1, kNever));
  std::vector<std::vector<int>> before(limits.size(), std::vector<int>(count + 1, 0));
  for (std::vector<int64_t>& of_division : least) of_division[0] = 0;
  for (int c = 1; c <= count; ++c) {
    int64_t handed_on = 0;  // over boundary c, by layers [a, c)
    for (int a = c - 1; a >= 0; --a) {
      for (const Value& value : values_[a]) {
        if (value.readers.back() >= c) handed_on += value.bytes;
      }
      const int64_t saved = saved_[c] - saved_[a];
      if (saved > limits[0]) break;
      for (size_t d = 0; d < limits.size() && saved <= limits[d]; ++d) {
        if (least[d][a] + handed_on >= least[d][c]) continue;
        least[d][c] = least[d][a] + handed_on;
        before[d][c] = a;
      }
    }
  }
  std::vector<std::vector<int>> divisions;
  for (size_t d = 0; d < limits.size(); ++d) {
    std::vector<int> cuts;
    for (int c = before[d][count]; c > 0; c = before[d][c]) cuts.push_back(c);
    std::reverse(cuts.begin(), cuts.end());
    divisions.push_back(std::move(cuts));
  }
  return divisions;
}

}  // namespace dpipe
