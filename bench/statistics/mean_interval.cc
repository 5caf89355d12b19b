#include "bench/statistics/mean_interval.h"

#include <cmath>
#include <limits>

#include "core/base/check.h"

namespace dpipe::bench {
namespace {

constexpr double kHalfPi = 1.57079632679489661923;

// The probability of an absolute value below sqrt(degrees) * tan(angle): for whole degrees of
// freedom a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4).
double Within(int degrees, double angle) {
  const double sine = std::sin(angle), square = std::cos(angle) * std::cos(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::cos(angle) : 1, sum = 0;
  for (int k = odd ? 3 : 2; k <= degrees; k += 2) {
    sum += term;
    term *= square * (k - 1) / k;
  }
  return odd ? (angle + sine * sum) / kHalfPi : sine * sum;
}

}  // namespace

double StudentQuantile(int degrees, double both_tails) {
  DPIPE_CHECK(degrees >= 1 && both_tails > 0 && both_tails < 1);
  double low = 0, high = kHalfPi;
  while (high - low > 1e-13) {
    const double middle = (low + high) / 2;
    (1 - Within(degrees, middle) > both_tails ? low : high) = middle;
  }
  return std::sqrt(degrees) * std::tan(low);
}

Interval MeanInterval(const std::vector<double>& samples, double confidence) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (samples.empty()) return {kNaN, kNaN, kNaN};
  const auto count = static_cast<double>(samples.size());
  double mean = 0, squares = 0;
  for (const double sample : samples) mean += sample / count;
  if (samples.size() == 1) return {mean, -kInfinity, kInfinity};
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  const double error = std::sqrt(squares / (count - 1) / count);
  const double half = error * StudentQuantile(static_cast<int>(samples.size()) - 1, 1 - confidence);
  return {mean, mean - half, mean + half};
}

}  // namespace dpipe::bench
