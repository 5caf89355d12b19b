// An interval for a median that holds at any number of samples and for any distribution.
#ifndef DPIPE_BENCH_STATISTICS_ORDER_INTERVAL_H_
#define DPIPE_BENCH_STATISTICS_ORDER_INTERVAL_H_

#include <vector>

#include "bench/statistics/bootstrap.h"

namespace dpipe::bench {

// Between two of the sorted samples, as far apart as the sign test wants: each sample is above the
// true median with probability 1/2, so how many are is binomial. Wider than the bootstrap's, whose
// intervals are too narrow for few samples and high confidence. Where even the smallest and the
// largest sample are not far enough apart (5 samples hold it with 94 % only), low and high are
// infinite. All NaN without samples.
Interval OrderInterval(std::vector<double> samples, double confidence);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_STATISTICS_ORDER_INTERVAL_H_
