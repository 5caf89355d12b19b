// Medians and spreads of repeated measurements.
#ifndef DPIPE_CORE_REPORT_STATS_H_
#define DPIPE_CORE_REPORT_STATS_H_

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

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATS_H_
