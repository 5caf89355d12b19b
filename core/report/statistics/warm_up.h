// Finds the number of samples at the start of a series before it settled.
#ifndef DPIPE_CORE_REPORT_STATISTICS_WARM_UP_H_
#define DPIPE_CORE_REPORT_STATISTICS_WARM_UP_H_

#include <vector>

namespace dpipe::report {

// Returns the number of leading samples to leave out: consecutive ones that are all more than 5
// standard deviations to the same side of the median of the series' second half. The deviation is
// that of the second half, estimated robustly from the median distance to the median. Returns 0
//
// - if the series looks settled from the start;
// - if it has fewer than 6 samples, which are too few to tell;
// - if all of its first half is that far away, which indicates a change of the machine.
int WarmUpLength(const std::vector<double>& samples);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_STATISTICS_WARM_UP_H_
