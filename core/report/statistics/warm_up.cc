#include "core/report/statistics/warm_up.h"

#include "core/report/stats.h"

namespace dpipe::report {
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
