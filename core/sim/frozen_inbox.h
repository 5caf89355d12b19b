// Frozen outputs and values received by one rank, indexed by component, layer and samples.
#ifndef DPIPE_CORE_SIM_FROZEN_INBOX_H_
#define DPIPE_CORE_SIM_FROZEN_INBOX_H_

#include <vector>

#include "core/base/range.h"
#include "core/sim/plan_graph.h"

namespace dpipe {

class FrozenInbox {
 public:
  static constexpr int kOutput = -1;

  struct Entry {
    int component = 0;
    int layer = kOutput;  // that the received values are for
    int step_offset = 0;
    SampleRange samples;  // do not overlap within a component and layer
    int arrival = 0;
    // The compute stream is in order, so only the first instruction that reads an entry must wait.
    bool awaited = false, awaited_next_step = false;
  };

  void Clear() { entries_.clear(); }
  bool empty() const { return entries_.empty(); }
  void Add(const Entry& entry) { entries_.push_back(entry); }
  void Sort();  // after the last Add

  // Appends a wait for every entry with `samples` of `component`, for that layer or of its output,
  // that no earlier instruction has waited for, on behalf of a computation of `step_offset`.
  // O(log entries + overlapping entries).
  void Await(int component, int layer, int step_offset, SampleRange samples,
             std::vector<PlanWait>* waits);

 private:
  std::vector<Entry> entries_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_FROZEN_INBOX_H_
