// Intervals for means by Student's t distribution.
//
// With few samples they are far narrower than intervals by order (order_interval.h): eight samples
// suffice for a confidence for which the sign test needs fourteen. In return, samples must be
// independent and nearly normal, as medians of many measurements are.
#ifndef DPIPE_CORE_REPORT_STATISTICS_MEAN_INTERVAL_H_
#define DPIPE_CORE_REPORT_STATISTICS_MEAN_INTERVAL_H_

#include <vector>

#include "core/report/statistics/interval.h"

namespace dpipe::report {

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

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATISTICS_MEAN_INTERVAL_H_
