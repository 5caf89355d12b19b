#include "core/train/compression/choose_fusion.h"

#include <algorithm>
#include <cmath>

namespace dpipe {
namespace {

// A sequence of groups: when compressor and network are free, and the begin of the last group.
struct Partial {
  Nanos compressed = 0, sent = 0;
  int begin = -1;     // of the last group
  int previous = -1;  // index among the partials that end at `begin`
};

Partial Extended(const Partial& before, int64_t size, const FusionCosts& costs) {
  Partial after;
  after.compressed = before.compressed + costs.Compress(size);
  after.sent = std::max(after.compressed, before.sent) + costs.Send(size);
  return after;
}

// Drops partials that another one dominates in both times.
void KeepBest(std::vector<Partial>* partials) {
  std::sort(partials->begin(), partials->end(), [](const Partial& a, const Partial& b) {
    return a.compressed != b.compressed ? a.compressed < b.compressed : a.sent < b.sent;
  });
  std::vector<Partial> kept;
  for (const Partial& partial : *partials) {
    if (kept.empty() || partial.sent < kept.back().sent) kept.push_back(partial);
  }
  *partials = std::move(kept);
}

}  // namespace

Nanos FusionCosts::Compress(int64_t n) const {
  return compress_fixed_ns + std::llround(compress_ns_per_number * static_cast<double>(n));
}

Nanos FusionCosts::Send(int64_t n) const {
  const double sent = sent_share * static_cast<double>(n);
  return send_fixed_ns + std::llround(send_ns_per_number * sent);
}

Nanos FusedTime(const std::vector<int64_t>& sizes, const std::vector<int>& ends,
                const FusionCosts& costs) {
  Partial partial;
  int begin = 0;
  for (int end : ends) {
    int64_t size = 0;
    for (; begin < end; ++begin) size += sizes[begin];
    partial = Extended(partial, size, costs);
  }
  return partial.sent;
}

std::vector<int> ChooseFusion(const std::vector<int64_t>& sizes, const FusionCosts& costs) {
  const int count = static_cast<int>(sizes.size());
  if (count == 0) return {};
  std::vector<std::vector<Partial>> ending(count + 1);
  ending[0].push_back({});
  for (int end = 1; end <= count; ++end) {
    int64_t size = 0;
    for (int begin = end - 1; begin >= 0; --begin) {
      size += sizes[begin];
      for (int i = 0; i < static_cast<int>(ending[begin].size()); ++i) {
        Partial partial = Extended(ending[begin][i], size, costs);
        partial.begin = begin;
        partial.previous = i;
        ending[end].push_back(partial);
      }
    }
    KeepBest(&ending[end]);
  }
  const auto best =
      std::min_element(ending[count].begin(), ending[count].end(),
                       [](const Partial& a, const Partial& b) { return a.sent < b.sent; });
  std::vector<int> ends;
  int end = count;
  for (const Partial* at = &*best; end > 0;) {
    ends.push_back(end);
    end = at->begin;
    at = &ending[end][at->previous];
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

}  // namespace dpipe
