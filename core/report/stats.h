// Medians and spreads of a few repeated measurements.
#ifndef DPIPE_CORE_REPORT_STATS_H_
#define DPIPE_CORE_REPORT_STATS_H_

#include <vector>

namespace dpipe::report {

// The middle value; the mean of the two middle ones of an even number. NaN if `samples` is empty.
double Median(std::vector<double> samples);

// How far measurements lie apart. All NaN for no samples.
struct Spread {
  double min = 0;
  double max = 0;
  // Median absolute deviation from the median, unscaled: half of the samples lie within it.
  double mad = 0;
};

Spread SpreadOf(const std::vector<double>& samples);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATS_H_
