#include "core/report/statistics/order_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/report/stats.h"

namespace dpipe::report {

Interval OrderInterval(std::vector<double> samples, double confidence) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (samples.empty()) return {kNaN, kNaN, kNaN};
  std::sort(samples.begin(), samples.end());
  const size_t count = samples.size();
  Interval interval = {Median(samples), -kInfinity, kInfinity};
  // The probability that at most k of `count` samples are below the median. The interval from
  // sample k to sample count - 1 - k misses the median with twice that probability. Stored as a
  // logarithm: with 1,075 samples or more, the probability that none is below underflows to 0.
  double log_probability = -std::log(2.0) * static_cast<double>(count);
  double cumulative = 0;
  for (size_t k = 0; 2 * k + 1 < count; ++k) {
    cumulative += std::exp(log_probability);
    if (2 * cumulative > 1 - confidence) break;
    interval.low = samples[k];
    interval.high = samples[count - 1 - k];
    log_probability += std::log(static_cast<double>(count - k) / static_cast<double>(k + 1));
  }
  return interval;
}

}  // namespace dpipe::report
