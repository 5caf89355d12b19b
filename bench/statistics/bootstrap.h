// Medians of measurements with bootstrap confidence intervals.
//
// Times on a shared machine have long tails, so medians speak for them, and no formula of the
// normal distribution for how sure those are. The bootstrap (Efron, "Bootstrap methods: another
// look at the jackknife", 1979) draws as many samples from the measured ones, with replacement,
// takes their median, and repeats; the middle 95 % of those medians are the interval (percentile
// method). It is short of its confidence by a few points for few samples: of 15 normal ones it
// holds the true median in about 93 of 100 cases (bootstrap_test). Of 3 it would hold it in 74
// only, because resampling cannot go beyond the samples. So fewer than kFewestResampled samples
// have Student's interval instead (mean_interval.h), around the median; a single one has no
// interval, that is, one of no width.
#ifndef DPIPE_BENCH_STATISTICS_BOOTSTRAP_H_
#define DPIPE_BENCH_STATISTICS_BOOTSTRAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/statistics/interval.h"

namespace dpipe::bench {

inline constexpr size_t kFewestResampled = 6;

struct BootstrapOptions {
  double confidence = 0.95;  // in (0, 1)
  int resamples = 2000;
  uint64_t seed = 1;  // the same samples and options give the same interval
};

Interval MedianInterval(const std::vector<double>& samples, const BootstrapOptions& options = {});

// Median of `numerators` over median of `denominators`, which were taken independently and may
// differ in number. All samples are positive. Where either are few, Welch's interval of the
// logarithms' difference; unbounded where only one of the two is a single sample, whose noise
// nothing tells.
Interval RatioInterval(const std::vector<double>& numerators,
                       const std::vector<double>& denominators,
                       const BootstrapOptions& options = {});

// The median of numerators[i] / denominators[i], where the two of a pair were taken one right after
// the other: what else the machine did then hits both and cancels. As many of each, all positive.
Interval PairedRatioInterval(const std::vector<double>& numerators,
                             const std::vector<double>& denominators,
                             const BootstrapOptions& options = {});

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_STATISTICS_BOOTSTRAP_H_
