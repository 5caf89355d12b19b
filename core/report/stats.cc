#include "core/report/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpipe::report {

double Median(std::vector<double> samples) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(samples.begin(), samples.end());
  const size_t middle = samples.size() / 2;
  if (samples.size() % 2 == 1) return samples[middle];
  return (samples[middle - 1] + samples[middle]) / 2;
}

Spread SpreadOf(const std::vector<double>& samples) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  if (samples.empty()) return {kNaN, kNaN, kNaN};
  const auto [min, max] = std::minmax_element(samples.begin(), samples.end());
  const double median = Median(samples);
  std::vector<double> deviations;
  for (double sample : samples) deviations.push_back(std::abs(sample - median));
  return {*min, *max, Median(deviations)};
}

}  // namespace dpipe::report
