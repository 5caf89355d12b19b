#include "core/report/testing/known_distributions.h"

#include <cmath>

#include "core/base/philox.h"

namespace dpipe::report {

std::vector<double> NormalSamples(int count, double mean, double deviation, uint32_t trial) {
  RandomStream random(0, 1, trial, RandomPurpose::kTest);
  std::vector<double> samples(count);
  for (double& sample : samples) sample = mean + deviation * random.NextNormal();
  return samples;
}

std::vector<double> SkewedSamples(int count, double median, double deviation, uint32_t trial) {
  RandomStream random(0, 2, trial, RandomPurpose::kTest);
  std::vector<double> samples(count);
  for (double& sample : samples) {
    sample = median + deviation * (-std::log1p(-random.NextUniform()) - std::log(2.0));
  }
  return samples;
}

}  // namespace dpipe::report
