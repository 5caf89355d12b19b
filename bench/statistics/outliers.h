// Samples that lie far from the others. They are part of what was measured: shown, not dropped.
#ifndef DPIPE_BENCH_STATISTICS_OUTLIERS_H_
#define DPIPE_BENCH_STATISTICS_OUTLIERS_H_

#include <vector>

namespace dpipe::bench {

// For each sample whether its distance to the median is more than 3.5 times the median of all such
// distances, scaled to a normal distribution's standard deviation (Iglewicz and Hoaglin, "How to
// detect and handle outliers", 1993). Of normal samples about one in 2,000. Where more than half of
// them are equal, the mean distance stands in for the median one. Fewer than 4 have none.
std::vector<bool> FindOutliers(const std::vector<double>& samples);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_STATISTICS_OUTLIERS_H_
