#include "core/report/statistics/mean_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/check.h"

namespace dpipe::report {
namespace {

constexpr double kHalfPi = 1.57079632679489661923;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Moments {
  double mean = 0;
  double variance_of_mean = 0;  // estimated; 0 for a single sample
};

Moments MomentsOf(const std::vector<double>& samples) {
  const auto count = static_cast<double>(samples.size());
  Moments moments;
  double squares = 0;
  for (const double sample : samples) moments.mean += sample / count;
  for (const double sample : samples) squares += (sample - moments.mean) * (sample - moments.mean);
  if (samples.size() > 1) moments.variance_of_mean = squares / (count - 1) / count;
  return moments;
}

// Returns the probability of an absolute value below sqrt(degrees) * tan(angle). For integer
// degrees of freedom it is a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4).
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
  if (samples.empty()) return {kNaN, kNaN, kNaN};
  const Moments moments = MomentsOf(samples);
  if (samples.size() == 1) return {moments.mean, -kInfinity, kInfinity};
  const double half = std::sqrt(moments.variance_of_mean) *
                      StudentQuantile(static_cast<int>(samples.size()) - 1, 1 - confidence);
  return {moments.mean, moments.mean - half, moments.mean + half};
}

Interval MeanDifferenceInterval(const std::vector<double>& a, const std::vector<double>& b,
                                double confidence) {
  if (a.empty() || b.empty()) return {kNaN, kNaN, kNaN};
  const Moments of_a = MomentsOf(a), of_b = MomentsOf(b);
  const double difference = of_a.mean - of_b.mean;
  if (a.size() == 1 || b.size() == 1) return {difference, -kInfinity, kInfinity};
  const double variance = of_a.variance_of_mean + of_b.variance_of_mean;
  if (variance == 0) return {difference, difference, difference};
  // Welch-Satterthwaite equation. Rounding down widens the interval.
  const auto term = [](const Moments& moments, size_t count) {
    return moments.variance_of_mean * moments.variance_of_mean / static_cast<double>(count - 1);
  };
  const double degrees = variance * variance / (term(of_a, a.size()) + term(of_b, b.size()));
  const double half =
      std::sqrt(variance) * StudentQuantile(std::max(1, static_cast<int>(degrees)), 1 - confidence);
  return {difference, difference - half, difference + half};
}

}  // namespace dpipe::report
