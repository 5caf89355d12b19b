// A schedule's passes as a job-shop problem: durations, and precedence arcs with delays.
//
// Nodes are passes. An arc from a to b with delay d says that b starts at least d after a ends:
//   - a micro-batch goes forward through the stages of its chain and then back, and each message
//     adds a delay;
//   - memory: micro-batch m enters a stage after micro-batch m - limit has left it.
// The graph does not say that a device runs one pass at a time: its user orders the passes of each
// device.
//
// Passes of one kind and stage differ only in their micro-batch, so they are interchangeable.
// OrderedBy numbers them such that each stage has its micro-batches in order in every kind of pass.
#ifndef DPIPE_CORE_SCHEDULE_TUNING_PASS_GRAPH_H_
#define DPIPE_CORE_SCHEDULE_TUNING_PASS_GRAPH_H_

#include <vector>

#include "core/base/time.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Durations of passes and messages, and memory limits.
struct PassGraphCosts {
  std::vector<PassCosts> costs;  // by stage of the schedule
  // By stage: the time of its output's message to the next stage, and of its input gradient's
  // message to the previous stage. Empty: 0.
  std::vector<Nanos> forward_delay_ns = {}, gradient_delay_ns = {};
  std::vector<Nanos> ready_ns = {};  // by device: earliest start of its first pass; empty: 0
  // By stage: the maximum number of micro-batches kept, at least 1. Empty: no limits.
  std::vector<int> stage_limits = {};
};

class PassGraph {
 public:
  struct Op {
    Slot slot;
    int device = 0;
    Nanos ns = 0;
  };
  // The minimum time from the end of one pass to the start of another.
  struct Arc {
    int op = 0;
    Nanos delay_ns = 0;
  };
  class Arcs {  // the arcs into or out of one pass
   public:
    Arcs(const Arc* begin, const Arc* end) : begin_(begin), end_(end) {}
    const Arc* begin() const { return begin_; }
    const Arc* end() const { return end_; }
    int size() const { return static_cast<int>(end_ - begin_); }

   private:
    const Arc *begin_, *end_;
  };

  // If the schedule splits any backward pass, all of them are split. `schedule` must outlive this.
  PassGraph(const Schedule& schedule, const PassGraphCosts& times);

  int num_ops() const { return static_cast<int>(ops_.size()); }
  int num_devices() const { return schedule_.num_devices(); }
  const Op& op(int i) const { return ops_[i]; }
  // Replaces the durations of a stage's passes.
  void SetCosts(int stage, const PassCosts& costs);
  Nanos ReadyNs(int device) const { return ready_ns_[device]; }
  // The arcs into a pass; Arc::op is the pass that each comes from.
  Arcs Before(int op) const { return Of(before_, before_begin_, op); }
  // The arcs out of a pass; Arc::op is the pass that each leads to.
  Arcs After(int op) const { return Of(after_, after_begin_, op); }

  // Returns the start time of each pass under the schedule's own order, if messages take no time.
  std::vector<double> OwnTimes() const;
  // Returns all passes in a topological order that prefers smaller keys. At equal keys, passes of
  // zero duration come first: if keys are start times, no pass then precedes one that it waits for.
  std::vector<int> ListBy(const std::vector<double>& keys) const;
  // Returns the schedule that orders each device's passes by start time. At equal times, passes of
  // zero duration come first, then those that are first in a topological order.
  Schedule OrderedBy(const std::vector<Nanos>& start_ns) const;
  // The position of a pass in that topological order.
  int RankOf(int op) const { return rank_[op]; }

 private:
  static constexpr int kNone = -1;

  // The passes of one stage and micro-batch; kNone if there is no such pass.
  struct PairOps {
    int forward = kNone, gradient = kNone, weights = kNone;
  };
  struct Edge {
    int from = 0, to = 0;
    Nanos delay_ns = 0;
  };

  static Arcs Of(const std::vector<Arc>& arcs, const std::vector<int>& begin, int op) {
    return {arcs.data() + begin[op], arcs.data() + begin[op + 1]};
  }
  int AddOp(Pass pass, int stage, int micro_batch, Nanos ns);
  void AddOps(const PassGraphCosts& times);
  std::vector<Edge> EdgesOf(const PassGraphCosts& times) const;
  void SetArcs(const std::vector<Edge>& edges);

  const Schedule& schedule_;
  bool splits_ = false;
  std::vector<Nanos> ready_ns_;  // by device
  std::vector<Op> ops_;
  std::vector<std::vector<PairOps>> pairs_;  // [stage][micro-batch]
  // Arcs grouped by pass: those of pass i are in [begin[i], begin[i + 1]).
  std::vector<Arc> before_, after_;
  std::vector<int> before_begin_, after_begin_;
  std::vector<int> rank_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_PASS_GRAPH_H_
