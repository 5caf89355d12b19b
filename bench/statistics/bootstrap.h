// Medians of measurements with bootstrap confidence intervals.
//
// Times on a shared machine have long tails, so medians speak for them, and no formula of the
// normal distribution for how sure those are. The bootstrap (Efron, "Bootstrap methods: another
// look at the jackknife", 1979) draws as many samples from the measured ones, with replacement,
// takes their median, and repeats; the middle 95 % of those medians are the interval (percentile
// method). It is short of its confidence by a few points for few samples: of 15 normal ones it
// holds the true median in about 93 of 100 cases (bootstrap_test).
#ifndef DPIPE_BENCH_STATISTICS_BOOTSTRAP_H_
#define DPIPE_BENCH_STATISTICS_BOOTSTRAP_H_

#include <cstdint>
#include <vector>

namespace dpipe::bench {

// An estimate and what it may be. All NaN where there are no samples.
struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;

  bool Contains(double value) const { return low <= value && value <= high; }
};

struct BootstrapOptions {
  double confidence = 0.95;  // in (0, 1)
  int resamples = 2000;
  uint64_t seed = 1;  // the same samples and options give the same interval
};

Interval MedianInterval(const std::vector<double>& samples, const BootstrapOptions& options = {});

// Median of `numerators` over median of `denominators`, which were taken independently and may
// differ in number. All samples are positive.
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
