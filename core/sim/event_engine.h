// The discrete-event engine under Simulate: ranks, links and reductions over integer time.
#ifndef DPIPE_CORE_SIM_EVENT_ENGINE_H_
#define DPIPE_CORE_SIM_EVENT_ENGINE_H_

#include <queue>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/proto/cluster.pb.h"
#include "core/schedule/trace_stats.h"
#include "core/sim/plan_graph.h"

namespace dpipe {

// A StreamEvent and the event that its start waited for: the end of the chain behind it.
struct CausedEvent {
  StreamEvent event;
  int cause = -1;  // index into the engine's events; -1: the start of the run
};

// Runs a graph once. Not reusable.
class EventEngine {
 public:
  // Steps 0 to num_steps - 1, after a prologue (step -1) if the plan works across steps;
  // `periodic`: no prologue, every step does all its work and the first finds what its predecessor
  // would have left. `norm_latency_ns`: between the last rank's arrival at OPTIMIZER_STEP and its
  // start, with a global norm. Keeps references.
  EventEngine(const PlanGraph& graph, const ClusterSpec& cluster, Nanos norm_latency_ns,
              int num_steps, bool periodic);

  // DeadlineExceeded, naming the waiting ranks, if the run cannot end.
  absl::Status Run();

  // In order of their making.
  const std::vector<CausedEvent>& events() const { return events_; }
  // num_steps + 1 times: the start of step 0, then the earliest end of an OPTIMIZER_STEP among the
  // ranks of stage 0, for each step.
  const std::vector<Nanos>& step_start_ns() const { return step_start_ns_; }

 private:
  static constexpr Nanos kUnknown = -1;

  enum class AlarmKind { kTransferEnd, kTransferStart, kRank };
  struct Alarm {
    Nanos time;
    AlarmKind kind;
    int rank;
    int version;  // of the rank's computation; a stale one is ignored
    friend bool operator>(const Alarm& a, const Alarm& b) {
      if (a.time != b.time) return a.time > b.time;
      if (a.kind != b.kind) return a.kind > b.kind;
      if (a.rank != b.rank) return a.rank > b.rank;
      return a.version > b.version;
    }
  };
  // A moment, and the event that brought it about.
  struct Moment {
    Nanos time = 0;
    int cause = -1;
  };
  struct RankState {
    int step = 0;
    int next = 0;          // instruction
    int last_event = -1;   // on the compute stream
    bool waiting = false;  // for something whose time is not known yet
    bool done = false;
    // Own-stream reductions: issued but not started, and the latest end of those started.
    int open_reductions = 0;
    Moment reductions_end;
    Moment collective_free;
    Moment send_free, recv_free;
    // With contention: what runs now.
    int running = -1;  // event
    double remaining_ns = 0;
    Nanos updated_ns = 0;
    int transfers = 0;
    int version = 0;
  };
  struct Transfer {
    Nanos posted_ns = kUnknown;  // this side
    int cause = -1;
    Nanos arrival_ns = kUnknown;  // RECV: when the data is there
    int event = -1;
  };
  struct Gathering {
    int count = 0;
    Moment latest;
  };

  int StepSlot(int step) const { return step + 1; }
  Transfer& TransferAt(int rank, int instruction, int step) {
    return transfers_[rank][static_cast<size_t>(StepSlot(step)) * graph_.nodes[rank].size() +
                            instruction];
  }
  bool Active(const PlanNode& node, int step) const;
  static void Later(const Moment& candidate, Moment* latest) {
    if (candidate.time > latest->time) *latest = candidate;
  }

  void Wake(int rank, Nanos now);
  void Advance(int rank, Nanos now);
  void FinishStep(int rank, Nanos now);
  bool ReadyAt(int rank, const PlanNode& node, Nanos now, Moment* ready);
  bool Step(int rank, Nanos now);
  bool Compute(int rank, const PlanNode& node, Nanos now);
  bool Optimize(int rank, const PlanNode& node, Nanos now);
  bool Reduce(int rank, const PlanNode& node, Nanos now);
  bool Flush(int rank, const PlanNode& node, Nanos now);
  bool StartEverywhere(Gathering* gathering);
  void Start(int rank, int instruction, const Moment& at, Nanos duration);
  void Post(int rank, int instruction, Nanos now);
  void StartTransfer(int from, int send, int to, int recv, int step, Nanos now);
  void StartReduction(int step, const PlanNode& node, const Gathering& gathering);
  int AddEvent(const StreamEvent& event, int cause);
  void Communicates(int rank, Nanos start, Nanos end);
  void UpdateContention(const Alarm& alarm);
  void Reschedule(int rank, Nanos now);

  const PlanGraph& graph_;
  const ClusterSpec& cluster_;
  const int num_steps_;
  const bool periodic_;
  const bool contention_;
  const Nanos norm_latency_;

  std::vector<RankState> ranks_;
  std::vector<std::vector<Transfer>> transfers_;       // [rank][step slot x instruction]
  std::vector<Gathering> gatherings_;                  // [step slot x reduction]
  std::vector<Gathering> optimizers_;                  // [step slot]
  std::vector<Gathering> flushes_;                     // [step slot x flush]
  std::vector<std::pair<Moment, Moment>> interfaces_;  // of each node: out, in
  std::vector<CausedEvent> events_;
  std::vector<Nanos> step_start_ns_;
  std::vector<bool> is_first_stage_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<Alarm>> alarms_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_EVENT_ENGINE_H_
