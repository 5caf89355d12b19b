#include "core/schedule/placement/frozen_exchange.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace dpipe {

std::vector<SampleRange> Merge(std::vector<SampleRange> ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<SampleRange> merged;
  for (const SampleRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

std::vector<SampleRange> SplitEvenly(SampleRange samples, int parts, int quantum) {
  const int quanta = samples.size() / quantum;
  std::vector<SampleRange> split;
  int begin = samples.begin;
  for (int i = 0; i < parts; ++i) {
    const int size = (quanta / parts + (i < quanta % parts ? 1 : 0)) * quantum;
    split.push_back({begin, begin + size});
    begin += size;
  }
  return split;
}

namespace {

// The ranges of samples of one component that ranks read, sorted by first sample.
class Readers {
 public:
  void Add(int rank, SampleRange samples) { ranges_.push_back({samples, rank, 0}); }

  void Sort() {
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
      return std::tie(a.samples, a.rank) < std::tie(b.samples, b.rank);
    });
    int furthest = 0;
    for (Range& range : ranges_) {
      range.furthest_end = furthest = std::max(furthest, range.samples.end);
    }
  }

  // Calls visit(rank, common samples) for each range that intersects `samples`. Call Sort first.
  template <typename Visit>
  void ForEachOf(SampleRange samples, const Visit& visit) const {
    auto at = std::lower_bound(ranges_.begin(), ranges_.end(), samples.end,
                               [](const Range& a, int end) { return a.samples.begin < end; });
    // Once furthest_end <= samples.begin, no earlier range intersects `samples`.
    while (at != ranges_.begin() && (--at)->furthest_end > samples.begin) {
      const SampleRange common = samples.Intersect(at->samples);
      if (!common.empty()) visit(at->rank, common);
    }
  }

 private:
  struct Range {
    SampleRange samples;
    int rank = 0;
    int furthest_end = 0;  // maximum end of this range and those before it
  };
  std::vector<Range> ranges_;
};

}  // namespace

std::vector<FrozenMessage> FrozenExchange(const std::vector<FrozenOutput>& owners,
                                          const std::vector<FrozenOutput>& readers) {
  // (component, offset, rank) -> samples
  using Key = std::tuple<int, int, int>;
  std::map<Key, std::vector<SampleRange>> owned, read;
  for (const FrozenOutput& owner : owners) {
    owned[{owner.component, owner.step_offset, owner.rank}].push_back(owner.samples);
  }
  for (const FrozenOutput& reader : readers) {
    read[{reader.component, 0, reader.rank}].push_back(reader.samples);
  }
  std::map<int, Readers> by_component;
  for (auto& [key, ranges] : read) {
    for (const SampleRange& range : Merge(std::move(ranges))) {
      by_component[std::get<0>(key)].Add(std::get<2>(key), range);
    }
  }
  for (auto& entry : by_component) entry.second.Sort();
  std::vector<FrozenMessage> messages;
  for (auto& [owner, ranges] : owned) {
    const auto [component, step_offset, from] = owner;
    const auto of_component = by_component.find(component);
    if (of_component == by_component.end()) continue;
    for (const SampleRange& mine : Merge(std::move(ranges))) {
      of_component->second.ForEachOf(
          mine, [&messages, component = component, step_offset = step_offset, from = from](
                    int to, SampleRange common) {
            if (to != from) messages.push_back({component, common, from, to, step_offset});
          });
    }
  }
  std::sort(messages.begin(), messages.end(), [](const FrozenMessage& a, const FrozenMessage& b) {
    return std::tie(a.component, a.samples.begin, a.to, a.step_offset) <
           std::tie(b.component, b.samples.begin, b.to, b.step_offset);
  });
  return messages;
}

}  // namespace dpipe
