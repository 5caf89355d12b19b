// The discrete-event engine under Simulate: ranks, links and collectives over integer time.
#ifndef DPIPE_CORE_SIM_EVENT_ENGINE_H_
#define DPIPE_CORE_SIM_EVENT_ENGINE_H_

#include <cstdint>
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
  // would have left. `norm_latency_ns`: of a meeting of all ranks, from the last one's arrival on:
  // at OPTIMIZER_STEP with a global norm, at a FLUSH, and after the prologue. Keeps references.
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

  // At one moment in this order: what ends where a collective begins is not held up by it.
  enum AlarmKind : uint32_t {
    kTransferEnd,
    kTransferStart,
    kCollectiveEnd,
    kRank,
    kCollectiveStart
  };
  struct Alarm {
    Nanos time;
    uint32_t order;  // kind, then rank
    int version;     // of the rank's computation; a stale one is ignored
    AlarmKind kind() const { return static_cast<AlarmKind>(order >> kRankBits); }
    int rank() const { return static_cast<int>(order & ((1u << kRankBits) - 1)); }
    friend bool operator>(const Alarm& a, const Alarm& b) {
      if (a.time != b.time) return a.time > b.time;
      if (a.order != b.order) return a.order > b.order;
      return a.version > b.version;
    }
  };
  static constexpr int kRankBits = 28;
  static uint32_t OrderOf(AlarmKind kind, int rank) {
    return static_cast<uint32_t>(kind) << kRankBits | static_cast<uint32_t>(rank);
  }
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
    // REDUCE_GRADS on streams of their own: issued but not started, and the latest end of those
    // started.
    int open_reductions = 0;
    Moment reductions_end;
    Moment collective_free;
    Moment send_free, recv_free;
    // Where communication slows computation: what runs now.
    int running = -1;  // event
    double remaining_ns = 0;
    Nanos updated_ns = 0;
    int transfers = 0;
    int collectives = 0;  // that hold up what runs
    int version = 0;
  };
  // Of a message whose one side has come.
  struct Post {
    Nanos time = kUnknown;
    int cause = -1;
  };
  // Of a message, or of gathered parameters on one rank.
  struct Arrival {
    Nanos time = kUnknown;
    int event = -1;
  };
  // Ranks that have come to a collective.
  struct Gathering {
    int count = 0;
    Moment latest;
  };

  // Of tables by step, which begin with the prologue.
  size_t At(int step, int num_per_step, int index) const {
    return static_cast<size_t>(step + 1) * num_per_step + index;
  }
  bool Active(const PlanNode& node, int step) const;
  static void Later(const Moment& candidate, Moment* latest) {
    if (candidate.time > latest->time) *latest = candidate;
  }

  void Wake(int rank, Nanos now);
  void Advance(int rank, Nanos now);
  // False if the rank must be woken before it can go on.
  bool FinishStep(int rank, Nanos now);
  void MeetAfterPrologue(int rank, Nanos now);
  bool ReadyAt(int rank, const PlanNode& node, Nanos now, Moment* ready);
  bool Step(int rank, Nanos* now);
  bool Compute(int rank, const PlanNode& node, Nanos* now);
  bool Optimize(int rank, const PlanNode& node, Nanos* now);
  bool AwaitReductions(int rank, Nanos now);
  bool Collect(int rank, const PlanNode& node, Nanos now);
  bool Flush(int rank, const PlanNode& node, Nanos now);
  void StartEverywhere(Gathering* gathering);
  void Start(int rank, int instruction, const Moment& at, Nanos duration);
  bool GoOn(int rank, Nanos* now);
  void PostMessage(int rank, const PlanNode& node, Nanos now);
  void StartTransfer(const PlanMessage& message, int index, int step, const Moment& ready,
                     Nanos now);
  void StartCollective(int step, const PlanNode& node, const Gathering& gathering);
  int AddEvent(const StreamEvent& event, int cause);
  void Communicates(int rank, Nanos start, Nanos end);
  void HoldsUp(int rank, Nanos start, Nanos end);
  // How many times as long what runs takes now; 0: it stands still.
  double SlowDown(const RankState& state) const;
  void UpdateContention(const Alarm& alarm);
  void Reschedule(int rank, Nanos now);

  const PlanGraph& graph_;
  const ClusterSpec& cluster_;
  const int num_steps_;
  const bool periodic_;
  const int first_step_;   // -1: the prologue
  const bool contention_;  // communication slows computation, or holds it up
  const Nanos norm_latency_;

  std::vector<RankState> ranks_;
  std::vector<Post> posts_;                            // [step][message]
  std::vector<Arrival> arrivals_;                      // [step][arrival]
  std::vector<Gathering> gatherings_;                  // [step][collective]
  std::vector<Gathering> optimizers_;                  // [step]
  std::vector<Gathering> flushes_;                     // [step][flush]
  Gathering prologue_;                                 // its end
  std::vector<std::pair<Moment, Moment>> interfaces_;  // out, in
  std::vector<CausedEvent> events_;
  std::vector<Nanos> step_start_ns_;
  std::vector<bool> is_first_stage_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<Alarm>> alarms_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_EVENT_ENGINE_H_
