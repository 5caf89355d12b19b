// Confidence intervals: of a mean, of a median, and by the bootstrap.
#ifndef DPIPE_CORE_REPORT_STATISTICS_INTERVALS_H_
#define DPIPE_CORE_REPORT_STATISTICS_INTERVALS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dpipe::report {

// An estimate with a confidence interval.
// All NaN if there are no samples.
struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;

  bool Contains(double value) const { return low <= value && value <= high; }
};

// Intervals for means by Student's t distribution.
//
// With few samples they are far narrower than OrderInterval: eight samples
// suffice for a confidence for which the sign test needs fourteen. In return, samples must be
// independent and nearly normal, as medians of many measurements are.

// Returns the mean and its interval: unbounded for one sample, NaN for none. `confidence` is
// between 0 and 1.
Interval MeanInterval(const std::vector<double>& samples, double confidence);

// Returns the mean of `a` minus the mean of `b`, whose variances may differ (Welch, "The
// generalization of 'Student's' problem when several different population variances are involved",
// 1947). Unbounded if either is a single sample; NaN if either is empty.
Interval MeanDifferenceInterval(const std::vector<double>& a, const std::vector<double>& b,
                                double confidence);

// Returns the t that a variable of Student's distribution exceeds in absolute value with
// probability `both_tails`, between 0 and 1. `degrees` of freedom >= 1. Accurate to 1e-12 of the
// angle whose tangent is t / sqrt(degrees). O(degrees).
double StudentQuantile(int degrees, double both_tails);

// Medians of measurements with bootstrap confidence intervals.
//
// Times on a shared machine have long tails, so their typical value is the median, and intervals
// based on the normal distribution do not apply. The bootstrap (Efron, "Bootstrap methods: another
// look at the jackknife", 1979) draws as many samples from the measured ones, with replacement,
// takes their median, and repeats. The middle 95 % of those medians are the interval (percentile
// method).
//
// With few samples, coverage falls short of the confidence by a few points: with 15 normal samples
// the interval contains the true median in about 93 of 100 cases (intervals_test). With 3 samples
// it would do so in only 74, because resampling never goes beyond the samples. So with fewer than
// kMinResampled samples the interval is Student's (MeanInterval), around the median. A single
// sample has an interval of no width.

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

// Returns an interval for a median, valid for any number of samples and any distribution. It lies
// between two of the sorted samples, chosen by the sign test: each sample is
// above the true median with probability 1/2, so the number above it is binomial. It is wider than
// the bootstrap's, which is too narrow for few samples and high confidence. If even the smallest
// and the largest sample are not far enough apart (5 samples give only 94 %), low and high are
// infinite. All NaN if there are no samples.
Interval OrderInterval(std::vector<double> samples, double confidence);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATISTICS_INTERVALS_H_
