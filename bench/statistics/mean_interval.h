// An interval for a mean by Student's t distribution.
//
// Of few samples it is far narrower than what their order proves (order_interval.h): eight of them
// can bear a confidence for which the sign test needs fourteen. In return they must be independent
// and near a normal distribution, as medians of many measurements are.
#ifndef DPIPE_BENCH_STATISTICS_MEAN_INTERVAL_H_
#define DPIPE_BENCH_STATISTICS_MEAN_INTERVAL_H_

#include <vector>

#include "bench/statistics/interval.h"

namespace dpipe::bench {

// The estimate is the samples' mean. Unbounded for one sample; NaN for none. `confidence` is
// between 0 and 1.
Interval MeanInterval(const std::vector<double>& samples, double confidence);

// Mean of `a` less mean of `b`, which need not scatter alike (Welch, "The generalization of
// 'Student's' problem when several different population variances are involved", 1947). Unbounded
// where either is a single sample; NaN where either has none.
Interval MeanDifferenceInterval(const std::vector<double>& a, const std::vector<double>& b,
                                double confidence);

// The t that a variable of Student's distribution with so many degrees of freedom (>= 1) is beyond,
// on either side, with this probability, between 0 and 1: to 1e-12 of the angle whose tangent is
// t / sqrt(degrees). O(degrees).
double StudentQuantile(int degrees, double both_tails);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_STATISTICS_MEAN_INTERVAL_H_
