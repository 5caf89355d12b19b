// Which rank computes the frozen outputs of which samples, and the messages that take them to their
// readers.
#ifndef DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_EXCHANGE_H_
#define DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_EXCHANGE_H_

#include <vector>

#include "core/base/range.h"

namespace dpipe {

// The final outputs of `component` for `samples`, computed on, or read by, `rank`.
struct FrozenOutput {
  int component = 0;
  int rank = 0;
  SampleRange samples;
  int step_offset = 0;  // of an owner
};

// A message for each maximal range of samples that a rank reads and another one owns; from and to
// differ.
struct FrozenMessage {
  int component = 0;
  SampleRange samples;
  int from = 0;
  int to = 0;
  int step_offset = 0;
};

// In an order that every rank keeps: by component, first sample, receiver. O(n log n) in the
// outputs and messages, if few outputs overlap.
std::vector<FrozenMessage> FrozenExchange(const std::vector<FrozenOutput>& owners,
                                          const std::vector<FrozenOutput>& readers);

// Joins adjacent and overlapping ranges, which may come in any order; the result is increasing.
std::vector<SampleRange> Merge(std::vector<SampleRange> ranges);

// `samples` split evenly over `parts` in multiples of `quantum` (which divides their number); the
// first ones take one more where it does not divide.
std::vector<SampleRange> SplitEvenly(SampleRange samples, int parts, int quantum);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_EXCHANGE_H_
