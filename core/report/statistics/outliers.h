// Finds samples far from the others. They were measured too, so they are shown, not dropped.
#ifndef DPIPE_CORE_REPORT_STATISTICS_OUTLIERS_H_
#define DPIPE_CORE_REPORT_STATISTICS_OUTLIERS_H_

#include <vector>

namespace dpipe::report {

// Marks each sample whose distance to the median is more than 3.5 times the median of all such
// distances. The latter is scaled to a normal distribution's standard deviation (Iglewicz and
// Hoaglin, "How to detect and handle outliers", 1993). About one in 2,000 normal samples is marked.
// If more than half of the samples are equal, uses the mean distance instead of the median. With
// fewer than 4 samples, marks none.
std::vector<bool> FindOutliers(const std::vector<double>& samples);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATISTICS_OUTLIERS_H_
