// The median as one of the samples. core/report/statistics/stats.h has the median of doubles, which
// averages the middle two.
#ifndef DPIPE_CORE_BASE_MEDIAN_H_
#define DPIPE_CORE_BASE_MEDIAN_H_

#include <algorithm>
#include <vector>

#include "core/base/check.h"

namespace dpipe {

// Returns the middle sample; of an even number, the larger of the middle two. Linear time.
// `samples` must not be empty.
template <typename T>
T MedianSample(std::vector<T> samples) {
  DPIPE_CHECK(!samples.empty());
  const auto middle = samples.begin() + samples.size() / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_MEDIAN_H_
