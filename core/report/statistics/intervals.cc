#include "core/report/statistics/intervals.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/report/statistics/stats.h"

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

namespace {

constexpr Interval kUnknown = {std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::quiet_NaN()};

std::vector<double> Resample(const std::vector<double>& samples, RandomStream* random) {
  std::vector<double> drawn(samples.size());
  for (double& value : drawn) {
    value = samples[random->NextBelow(static_cast<uint32_t>(samples.size()))];
  }
  return drawn;
}

// `draw` returns the statistic of one resampling.
Interval Bootstrap(double estimate, const BootstrapOptions& options,
                   const std::function<double(RandomStream*)>& draw) {
  DPIPE_CHECK(options.resamples > 0 && options.confidence > 0 && options.confidence < 1);
  std::vector<double> statistics(options.resamples);
  for (int i = 0; i < options.resamples; ++i) {
    RandomStream random(options.seed, i, 0, RandomPurpose::kSample);
    statistics[i] = draw(&random);
  }
  std::sort(statistics.begin(), statistics.end());
  const double tail = (1 - options.confidence) / 2;
  const auto last = static_cast<double>(options.resamples - 1);
  return {estimate, statistics[static_cast<size_t>(std::floor(tail * last))],
          statistics[static_cast<size_t>(std::ceil((1 - tail) * last))]};
}

std::vector<double> Logarithms(const std::vector<double>& samples) {
  std::vector<double> logs;
  for (const double sample : samples) logs.push_back(std::log(sample));
  return logs;
}

// Returns the interval of a ratio from the interval of its logarithm.
Interval Exponential(const Interval& logs) {
  return {std::exp(logs.estimate), std::exp(logs.low), std::exp(logs.high)};
}

bool IsFew(const std::vector<double>& samples) { return samples.size() < kMinResampled; }

}  // namespace

Interval MedianInterval(const std::vector<double>& samples, const BootstrapOptions& options) {
  if (samples.empty()) return kUnknown;
  const double median = Median(samples);
  const auto [min, max] = std::minmax_element(samples.begin(), samples.end());
  if (*min == *max) return {median, median, median};
  if (IsFew(samples)) {
    // With skewed samples and low confidence, the median may be outside of the mean's interval.
    const Interval mean = MeanInterval(samples, options.confidence);
    return {median, std::min(median, mean.low), std::max(median, mean.high)};
  }
  return Bootstrap(median, options,
                   [&](RandomStream* random) { return Median(Resample(samples, random)); });
}

Interval RatioInterval(const std::vector<double>& numerators,
                       const std::vector<double>& denominators, const BootstrapOptions& options) {
  if (numerators.empty() || denominators.empty()) return kUnknown;
  const double estimate = Median(numerators) / report::Median(denominators);
  if (numerators.size() == 1 && denominators.size() == 1) return {estimate, estimate, estimate};
  if (IsFew(numerators) || IsFew(denominators)) {
    const Interval ratio = Exponential(MeanDifferenceInterval(
        Logarithms(numerators), Logarithms(denominators), options.confidence));
    return {estimate, std::min(estimate, ratio.low), std::max(estimate, ratio.high)};
  }
  return Bootstrap(estimate, options, [&](RandomStream* random) {
    const double numerator = Median(Resample(numerators, random));
    return numerator / Median(Resample(denominators, random));
  });
}

Interval PairedRatioInterval(const std::vector<double>& numerators,
                             const std::vector<double>& denominators,
                             const BootstrapOptions& options) {
  DPIPE_CHECK(numerators.size() == denominators.size());
  // Uses logarithms so that a ratio and its inverse have inverse intervals even if the median is
  // between two samples.
  std::vector<double> logs;
  for (size_t i = 0; i < numerators.size(); ++i) {
    logs.push_back(std::log(numerators[i] / denominators[i]));
  }
  return Exponential(MedianInterval(logs, options));
}

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
