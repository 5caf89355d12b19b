// The exchange of frozen outputs: the messages that carry them from the ranks that compute them to
// the ranks that read them.
#ifndef DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_EXCHANGE_H_
#define DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_EXCHANGE_H_

#include <vector>

#include "core/base/range.h"

namespace dpipe {

// The final outputs of `component` for `samples`, computed or read by `rank`.
struct FrozenOutput {
  int component = 0;
  int rank = 0;
  SampleRange samples;
  int step_offset = 0;  // of an owner; ignored for readers
};

// One message per maximal range of samples that one rank owns and another rank reads. `from` and
// `to` differ.
struct FrozenMessage {
  int component = 0;
  SampleRange samples;
  int from = 0;
  int to = 0;
  int step_offset = 0;
};

// Returns the messages in the order in which every rank posts them: by component, first sample,
// receiver, step offset. O(n log n) in the number of outputs and messages if few outputs overlap.
std::vector<FrozenMessage> FrozenExchange(const std::vector<FrozenOutput>& owners,
                                          const std::vector<FrozenOutput>& readers);

// Joins adjacent and overlapping ranges, given in any order. The result is increasing.
std::vector<SampleRange> Merge(std::vector<SampleRange> ranges);

// Splits `samples` evenly into `parts` consecutive ranges, some perhaps empty. Sizes are multiples
// of `quantum`, which must divide samples.size(). If the quanta do not divide evenly, the first
// ranges get one more each.
std::vector<SampleRange> SplitEvenly(SampleRange samples, int parts, int quantum);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_FROZEN_EXCHANGE_H_
