// An estimate with a confidence interval.
#ifndef DPIPE_CORE_REPORT_STATISTICS_INTERVAL_H_
#define DPIPE_CORE_REPORT_STATISTICS_INTERVAL_H_

namespace dpipe::report {

// All NaN if there are no samples.
struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;

  bool Contains(double value) const { return low <= value && value <= high; }
};

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATISTICS_INTERVAL_H_
