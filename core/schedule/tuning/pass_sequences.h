// The order of passes on each device and the longest paths through them: the state of a local
// search that changes one order step by step.
//
// Symbols, over the graph's arcs and each device's sequence:
//   end(x)     the earliest end of pass x: the longest path up to and including x
//   rest(x)    the longest path from the start of x to the end of the schedule
//   makespan   max over x of end(x) + rest(x) - duration(x)
//
// A move takes one pass to right behind or right before another pass of its device. Only moves of
// passes on a longest path can shorten it. The numbers around the two passes suffice to estimate
// the makespan after a move, and to prove that the move closes no cycle (Balas and Vazacopoulos,
// "Guided local search with shifting bottleneck for job shop scheduling", Management Science 44,
// 1998).
#ifndef DPIPE_CORE_SCHEDULE_TUNING_PASS_SEQUENCES_H_
#define DPIPE_CORE_SCHEDULE_TUNING_PASS_SEQUENCES_H_

#include <vector>

#include "core/base/time.h"
#include "core/schedule/tuning/pass_graph.h"

namespace dpipe {

class PassSequences {
 public:
  static constexpr int kNone = -1;

  // `list` holds all passes in a topological order. The graph must outlive this.
  PassSequences(const PassGraph& graph, const std::vector<int>& list);

  Nanos makespan_ns() const;
  Nanos EndOf(int op) const { return end_[op]; }
  Nanos StartOf(int op) const { return end_[op] - graph_->op(op).ns; }
  // The longest path from the pass's start to the end of the schedule.
  Nanos RestOf(int op) const { return rest_[op]; }
  // The neighbours on the same device; kNone at either end.
  int Previous(int op) const { return previous_[op]; }
  int Next(int op) const { return next_[op]; }
  int FirstOf(int device) const { return first_[device]; }
  int LastOf(int device) const { return last_[device]; }

  // True if moving `op` right behind `other` provably closes no cycle. `other` must come after `op`
  // on the same device. O(arcs of op). The caller must not move a pass over another one of the same
  // kind and stage.
  bool CanGoBehind(int op, int other) const;
  // The same for moving `op` right before `other`, which must come before it.
  bool CanGoBefore(int op, int other) const;
  // Returns a lower bound on the estimate below. O(arcs of op).
  Nanos BoundBehind(int op, int other) const;
  Nanos BoundBefore(int op, int other) const;
  // Returns the longest path through the passes that would change places. All other passes keep
  // their ends and rests. O(passes between).
  Nanos EstimateBehind(int op, int other);
  Nanos EstimateBefore(int op, int other);
  // Recomputes all ends and rests; call it after the graph's durations change. O(passes).
  void Recompute();
  // Makes the move. O(passes).
  void MoveBehind(int op, int other);
  void MoveBefore(int op, int other);

 private:
  Nanos FreeBefore(int op) const;
  Nanos EarliestBy(int op) const;  // earliest start that the arcs into it allow
  Nanos RestBy(int op) const;      // longest path after its end, over the arcs out of it
  Nanos Estimate();
  void Unlink(int op);
  void LinkBehind(int op, int other);  // kNone: at the front
  void Reorder(int low, int high, int op, bool behind);
  bool FollowsMarked(int op) const;
  bool PrecedesMarked(int op) const;
  void UpdateEnds(int from);
  void UpdateRests(int from);

  const PassGraph* graph_;
  std::vector<int> previous_, next_;  // by op
  std::vector<int> first_, last_;     // by device
  std::vector<int> order_, place_;    // a topological order, and each pass's position in it
  std::vector<Nanos> end_, rest_;     // by op
  std::vector<char> marked_;          // by op; all false between calls
  std::vector<int> window_;           // scratch: the passes of a window in their order after a move
  std::vector<Nanos> window_end_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_PASS_SEQUENCES_H_
