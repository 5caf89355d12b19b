// How many of the first samples of a series were taken before it had settled.
#ifndef DPIPE_BENCH_STATISTICS_WARM_UP_H_
#define DPIPE_BENCH_STATISTICS_WARM_UP_H_

#include <vector>

namespace dpipe::bench {

// The number of leading samples to leave out: those, one after another, that lie more than 5
// standard deviations to one side of the median of the series' second half, whose deviation is
// robustly estimated (from the median distance to it). 0 where the series looks as if it had been
// settled from the start; where it has fewer than 6 samples, which tell nothing; and where all of
// its first half lies apart, which is a machine that changed and no warm-up.
int WarmUpLength(const std::vector<double>& samples);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_STATISTICS_WARM_UP_H_
