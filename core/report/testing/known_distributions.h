// Samples with a known true median, for tests of statistics.
#ifndef DPIPE_CORE_REPORT_TESTING_KNOWN_DISTRIBUTIONS_H_
#define DPIPE_CORE_REPORT_TESTING_KNOWN_DISTRIBUTIONS_H_

#include <cstdint>
#include <vector>

namespace dpipe::report {

// Returns samples of a normal distribution. Each `trial` has different samples.
std::vector<double> NormalSamples(int count, double mean, double deviation, uint32_t trial);

// Returns samples of an exponential distribution with this deviation, shifted to this median. It
// models times that are sometimes much longer and never much shorter.
std::vector<double> SkewedSamples(int count, double median, double deviation, uint32_t trial);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TESTING_KNOWN_DISTRIBUTIONS_H_
