// Passes in one order on each device, and the longest paths through them: what a search changes
// step by step.
//
// With the graph's arcs and each device's sequence, the earliest end of a pass is the longest path
// to it, and its *rest* the longest path from its start to the end of all: no order of this kind
// ends before the largest sum of both, less the pass, which is the makespan. A move takes one pass
// behind or before another one of its device. Only moves of passes on a longest path can shorten
// it, and what they lead to can be told about, and that no cycle comes of them for sure, from the
// numbers around them alone (Balas and Vazacopoulos, "Guided local search with shifting bottleneck
// for job shop scheduling", Management Science 44, 1998).
#ifndef DPIPE_CORE_SCHEDULE_TUNING_PASS_SEQUENCES_H_
#define DPIPE_CORE_SCHEDULE_TUNING_PASS_SEQUENCES_H_

#include <vector>

#include "core/base/time.h"
#include "core/schedule/tuning/pass_graph.h"

namespace dpipe {

class PassSequences {
 public:
  static constexpr int kNone = -1;

  // `list`: all passes, each after those that it waits for; the graph outlives this.
  PassSequences(const PassGraph& graph, const std::vector<int>& list);

  Nanos makespan_ns() const;
  Nanos EndOf(int op) const { return end_[op]; }
  Nanos StartOf(int op) const { return end_[op] - graph_->op(op).ns; }
  // From its start to the end of all, at least.
  Nanos RestOf(int op) const { return rest_[op]; }
  // On its device; kNone at the ends.
  int Previous(int op) const { return previous_[op]; }
  int Next(int op) const { return next_[op]; }
  int FirstOf(int device) const { return first_[device]; }
  int LastOf(int device) const { return last_[device]; }

  // Whether it is certain that `op` can go right behind `other`, which comes after it on their
  // device; O(arcs of op). Passes of one kind and stage are not moved over each other.
  bool CanGoBehind(int op, int other) const;
  // Whether it can go right before `other`, which comes before it.
  bool CanGoBefore(int op, int other) const;
  // What the estimate is no less than. O(arcs of op).
  Nanos BoundBehind(int op, int other) const;
  Nanos BoundBefore(int op, int other) const;
  // The longest path through the passes that would change places, with ends and rests of all others
  // as they are. O(passes between).
  Nanos EstimateBehind(int op, int other);
  Nanos EstimateBefore(int op, int other);
  // After the graph's times have changed. O(passes).
  void Recompute();
  // Does it. O(passes).
  void MoveBehind(int op, int other);
  void MoveBefore(int op, int other);

 private:
  Nanos FreeBefore(int op) const;
  Nanos EarliestBy(int op) const;  // by its arcs
  Nanos RestBy(int op) const;      // after its end, by its arcs
  Nanos Estimate();
  void Unlink(int op);
  void LinkBehind(int op, int other);  // kNone: first
  void Reorder(int low, int high, int op, bool behind);
  bool FollowsMarked(int op) const;
  bool PrecedesMarked(int op) const;
  void UpdateEnds(int from);
  void UpdateRests(int from);

  const PassGraph* graph_;
  std::vector<int> previous_, next_;  // by op
  std::vector<int> first_, last_;     // by device
  std::vector<int> order_, place_;    // all passes, each after those before it; places in that
  std::vector<Nanos> end_, rest_;     // by op
  std::vector<char> marked_;          // by op, between calls none
  std::vector<int> window_;           // scratch: passes in their order after a move
  std::vector<Nanos> window_end_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_PASS_SEQUENCES_H_
