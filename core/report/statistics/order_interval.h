// An interval for a median, valid for any number of samples and any distribution.
#ifndef DPIPE_CORE_REPORT_STATISTICS_ORDER_INTERVAL_H_
#define DPIPE_CORE_REPORT_STATISTICS_ORDER_INTERVAL_H_

#include <vector>

#include "core/report/statistics/bootstrap.h"

namespace dpipe::report {

// Returns the interval between two of the sorted samples, chosen by the sign test: each sample is
// above the true median with probability 1/2, so the number above it is binomial. It is wider than
// the bootstrap's, which is too narrow for few samples and high confidence. If even the smallest
// and the largest sample are not far enough apart (5 samples give only 94 %), low and high are
// infinite. All NaN if there are no samples.
Interval OrderInterval(std::vector<double> samples, double confidence);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATISTICS_ORDER_INTERVAL_H_
