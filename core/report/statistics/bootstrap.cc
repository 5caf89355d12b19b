#include "core/report/statistics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/report/statistics/mean_interval.h"
#include "core/report/stats.h"

namespace dpipe::report {
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

}  // namespace dpipe::report
