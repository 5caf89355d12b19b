// Half-open integer ranges: layers of a stage, samples of a batch.
#ifndef DPIPE_CORE_BASE_RANGE_H_
#define DPIPE_CORE_BASE_RANGE_H_

#include <algorithm>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace dpipe {

// Tagged, so that a range of layers cannot be used as a range of samples.
template <typename Tag>
struct IndexRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool Contains(int i) const { return begin <= i && i < end; }
  bool Contains(const IndexRange& other) const { return begin <= other.begin && other.end <= end; }
  // Returns the intersection, or an empty range ({x, x}) if there is none.
  IndexRange Intersect(const IndexRange& other) const {
    const int low = std::max(begin, other.begin);
    return {low, std::max(low, std::min(end, other.end))};
  }
  std::string ToString() const { return absl::StrCat("[", begin, ", ", end, ")"); }

  friend bool operator==(const IndexRange& a, const IndexRange& b) {
    return a.begin == b.begin && a.end == b.end;
  }
  friend bool operator!=(const IndexRange& a, const IndexRange& b) { return !(a == b); }
  friend bool operator<(const IndexRange& a, const IndexRange& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  }
};

using LayerRange = IndexRange<struct LayerRangeTag>;
using SampleRange = IndexRange<struct SampleRangeTag>;  // of the global batch

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_RANGE_H_
