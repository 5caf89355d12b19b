// Medians of measurements with bootstrap confidence intervals.
//
// Times on a shared machine have long tails, so their typical value is the median, and intervals
// based on the normal distribution do not apply. The bootstrap (Efron, "Bootstrap methods: another
// look at the jackknife", 1979) draws as many samples from the measured ones, with replacement,
// takes their median, and repeats. The middle 95 % of those medians are the interval (percentile
// method).
//
// With few samples, coverage falls short of the confidence by a few points: with 15 normal samples
// the interval contains the true median in about 93 of 100 cases (bootstrap_test). With 3 samples
// it would do so in only 74, because resampling never goes beyond the samples. So with fewer than
// kMinResampled samples the interval is Student's (mean_interval.h), around the median. A single
// sample has an interval of no width.
#ifndef DPIPE_CORE_REPORT_STATISTICS_BOOTSTRAP_H_
#define DPIPE_CORE_REPORT_STATISTICS_BOOTSTRAP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/report/statistics/interval.h"

namespace dpipe::report {

inline constexpr size_t kMinResampled = 6;

struct BootstrapOptions {
  double confidence = 0.95;  // in (0, 1)
  int resamples = 2000;
  uint64_t seed = 1;  // the same samples and options give the same interval
};

Interval MedianInterval(const std::vector<double>& samples, const BootstrapOptions& options = {});

// Returns the median of `numerators` over the median of `denominators`. The two were taken
// independently and may differ in number; all samples are positive. If either has few samples, the
// interval is Welch's for the difference of logarithms. It is unbounded if exactly one of the two
// is a single sample, whose noise is unknown.
Interval RatioInterval(const std::vector<double>& numerators,
                       const std::vector<double>& denominators,
                       const BootstrapOptions& options = {});

// Returns the median of numerators[i] / denominators[i]. The two of a pair were taken one right
// after the other, so that other work on the machine affects both and cancels. Both have the same
// size, and all samples are positive.
Interval PairedRatioInterval(const std::vector<double>& numerators,
                             const std::vector<double>& denominators,
                             const BootstrapOptions& options = {});

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATISTICS_BOOTSTRAP_H_
