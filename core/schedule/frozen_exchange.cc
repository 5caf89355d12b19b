#include "core/schedule/frozen_exchange.h"

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
  for (auto& entry : owned) entry.second = Merge(std::move(entry.second));
  for (auto& entry : read) entry.second = Merge(std::move(entry.second));
  std::vector<FrozenMessage> messages;
  for (const auto& [owner, owner_ranges] : owned) {
    const auto [component, step_offset, from] = owner;
    for (auto it = read.lower_bound({component, 0, 0});
         it != read.end() && std::get<0>(it->first) == component; ++it) {
      const int to = std::get<2>(it->first);
      if (to == from) continue;
      for (const SampleRange& mine : owner_ranges) {
        for (const SampleRange& theirs : it->second) {
          const SampleRange common = mine.Intersect(theirs);
          if (!common.empty()) messages.push_back({component, common, from, to, step_offset});
        }
      }
    }
  }
  std::sort(messages.begin(), messages.end(), [](const FrozenMessage& a, const FrozenMessage& b) {
    return std::tie(a.component, a.samples.begin, a.to, a.step_offset) <
           std::tie(b.component, b.samples.begin, b.to, b.step_offset);
  });
  return messages;
}

}  // namespace dpipe
