#include "core/report/statistics/stats.h"

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

namespace {

constexpr double kLimit = 3.5;
// Standard deviation of a normal distribution over the median, and over the mean, of distances from
// its centre: 1 / Φ⁻¹(3/4) and √(π/2).
constexpr double kPerMedianDistance = 1.482602;
constexpr double kPerMeanDistance = 1.253314;

}  // namespace

std::vector<bool> FindOutliers(const std::vector<double>& samples) {
  std::vector<bool> outliers(samples.size(), false);
  if (samples.size() < 4) return outliers;
  const double median = Median(samples);
  double scale = kPerMedianDistance * SpreadOf(samples).mad;
  if (scale == 0) {
    double sum = 0;
    for (const double sample : samples) sum += std::abs(sample - median);
    scale = kPerMeanDistance * sum / static_cast<double>(samples.size());
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    outliers[i] = std::abs(samples[i] - median) > kLimit * scale;
  }
  return outliers;
}

namespace {

constexpr int kMinCount = 6;
// Larger than the limit for outliers, because the deviation of a few samples is itself uncertain.
constexpr double kFar = 5;
constexpr double kDeviationPerMad = 1.482602;  // for a normal distribution

}  // namespace

int WarmUpLength(const std::vector<double>& samples) {
  const int count = static_cast<int>(samples.size());
  if (count < kMinCount) return 0;
  const int half = count / 2;
  const std::vector<double> settled(samples.begin() + half, samples.end());
  const double middle = Median(settled);
  const double far = kFar * kDeviationPerMad * SpreadOf(settled).mad;
  const double side = samples[0] > middle ? 1 : -1;
  int length = 0;
  while (length < half && side * (samples[length] - middle) > far) ++length;
  return length < half ? length : 0;
}

}  // namespace dpipe::report
