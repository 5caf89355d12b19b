// The passes of a schedule as jobs on machines: what each takes, and which wait for which.
//
// Nodes are passes, arcs say how long after the end of one another one starts at the earliest:
// a micro-batch's way forward and back through the stages of its chain, messages included, and
// memory, by stage: micro-batch m enters a stage after m - limit has left it. That a device runs
// one pass at a time is left to whoever orders them.
//
// Passes of a stage that differ in their micro-batch alone can stand for one another, so every
// stage ends up with its micro-batches in order in each kind of pass.
#ifndef DPIPE_CORE_SCHEDULE_TUNING_PASS_GRAPH_H_
#define DPIPE_CORE_SCHEDULE_TUNING_PASS_GRAPH_H_

#include <vector>

#include "core/base/time.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// What passes and the messages between them take, and the memory that there is.
struct PassGraphCosts {
  std::vector<PassCosts> costs;  // by stage of the schedule
  // By stage: how long its output takes to the stage after it, and its gradient to the one before
  // it. Empty: no time.
  std::vector<Nanos> forward_delay_ns = {}, gradient_delay_ns = {};
  std::vector<Nanos> ready_ns = {};  // by device: its first pass starts no earlier; empty: 0
  // By stage: the most micro-batches kept, at least 1; empty: any.
  std::vector<int> stage_limits = {};
};

class PassGraph {
 public:
  struct Op {
    Slot slot;
    int device = 0;
    Nanos ns = 0;
  };
  // From the end of one pass to the start of another at least.
  struct Arc {
    int op = 0;
    Nanos delay_ns = 0;
  };
  class Arcs {  // of one pass
   public:
    Arcs(const Arc* begin, const Arc* end) : begin_(begin), end_(end) {}
    const Arc* begin() const { return begin_; }
    const Arc* end() const { return end_; }
    int size() const { return static_cast<int>(end_ - begin_); }

   private:
    const Arc *begin_, *end_;
  };

  // Passes are split where the schedule splits any. The schedule outlives this.
  PassGraph(const Schedule& schedule, const PassGraphCosts& times);

  int num_ops() const { return static_cast<int>(ops_.size()); }
  int num_devices() const { return schedule_.num_devices(); }
  const Op& op(int i) const { return ops_[i]; }
  // What the passes of a stage take from now on.
  void SetCosts(int stage, const PassCosts& costs);
  Nanos ReadyNs(int device) const { return ready_ns_[device]; }
  // The arcs that end at a pass, each with the pass that it comes from.
  Arcs Before(int op) const { return Of(before_, before_begin_, op); }
  // The arcs that begin at a pass, each with the pass that it leads to.
  Arcs After(int op) const { return Of(after_, after_begin_, op); }

  // When passes start in the schedule as it is, messages free; by pass.
  std::vector<double> OwnTimes() const;
  // Every pass after those before it, otherwise the smaller key first; at equal ones those that
  // take no time, so that by start times none waits for what begins together with it.
  std::vector<int> ListBy(const std::vector<double>& keys) const;
  // The schedule in which the passes of each device come in the order of these times, at equal ones
  // those that take no time first, in an order that all arcs allow.
  Schedule OrderedBy(const std::vector<Nanos>& start_ns) const;
  // A pass's place in that order.
  int RankOf(int op) const { return rank_[op]; }

 private:
  static constexpr int kNone = -1;

  // The pass of a stage and micro-batch; kNone where there is no such pass.
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
  // Arcs by pass, those of pass i from begin[i] to begin[i + 1].
  std::vector<Arc> before_, after_;
  std::vector<int> before_begin_, after_begin_;
  std::vector<int> rank_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_TUNING_PASS_GRAPH_H_
