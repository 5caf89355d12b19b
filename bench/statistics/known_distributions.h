// Samples whose true median is known, to test statistics on.
#ifndef DPIPE_BENCH_STATISTICS_KNOWN_DISTRIBUTIONS_H_
#define DPIPE_BENCH_STATISTICS_KNOWN_DISTRIBUTIONS_H_

#include <cstdint>
#include <vector>

namespace dpipe::bench {

// Draws are numbered by `trial`: each has other samples.
std::vector<double> NormalSamples(int count, double mean, double deviation, uint32_t trial);

// `median` plus what is exponentially distributed with this deviation, shifted to have median 0: a
// time that is sometimes much longer and never much shorter.
std::vector<double> SkewedSamples(int count, double median, double deviation, uint32_t trial);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_STATISTICS_KNOWN_DISTRIBUTIONS_H_
