// Repeated measurements: medians, spreads, outliers and warm-up.
#ifndef DPIPE_CORE_REPORT_STATISTICS_STATS_H_
#define DPIPE_CORE_REPORT_STATISTICS_STATS_H_

#include <vector>

namespace dpipe::report {

// Returns the middle value, or the mean of the two middle values. NaN if `samples` is empty.
double Median(std::vector<double> samples);

// Spread of measurements. All NaN if there are no samples.
struct Spread {
  double min = 0;
  double max = 0;
  // Median absolute deviation from the median, unscaled: half of the samples are within it.
  double mad = 0;
};

Spread SpreadOf(const std::vector<double>& samples);

// Finds samples far from the others. They were measured too, so they are shown, not dropped. Marks
// each sample whose distance to the median is more than 3.5 times the median of all such
// distances. The latter is scaled to a normal distribution's standard deviation (Iglewicz and
// Hoaglin, "How to detect and handle outliers", 1993). About one in 2,000 normal samples is marked.
// If more than half of the samples are equal, uses the mean distance instead of the median. With
// fewer than 4 samples, marks none.
std::vector<bool> FindOutliers(const std::vector<double>& samples);

// Returns the number of leading samples to leave out: consecutive ones that are all more than 5
// standard deviations to the same side of the median of the series' second half. The deviation is
// that of the second half, estimated robustly from the median distance to the median. Returns 0
//
// - if the series looks settled from the start;
// - if it has fewer than 6 samples, which are too few to tell;
// - if all of its first half is that far away, which indicates a change of the machine.
int WarmUpLength(const std::vector<double>& samples);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATISTICS_STATS_H_
