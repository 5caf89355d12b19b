// An estimate with a confidence interval.
#ifndef DPIPE_BENCH_STATISTICS_INTERVAL_H_
#define DPIPE_BENCH_STATISTICS_INTERVAL_H_

namespace dpipe::bench {

// All NaN if there are no samples.
struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;

  bool Contains(double value) const { return low <= value && value <= high; }
};

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_STATISTICS_INTERVAL_H_
