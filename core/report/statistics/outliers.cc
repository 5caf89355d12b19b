#include "core/report/statistics/outliers.h"

#include <cmath>

#include "core/report/stats.h"

namespace dpipe::report {
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

}  // namespace dpipe::report
