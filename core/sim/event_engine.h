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

// A StreamEvent with its cause: the event that its start waited for.
struct CausedEvent {
  StreamEvent event;
  int cause = -1;  // index into the engine's events; -1: the start of the run
};

// Runs a graph once. Not reusable.
class EventEngine {
 public:
  // Simulates steps 0 to num_steps - 1, after a prologue (step -1) if the plan works across steps.
  // If `periodic`, there is no prologue: every step does all its work, and the first finds the
  // results that a predecessor would have left. `norm_latency_ns` is the time that a meeting of all
  // ranks takes after the last one's arrival: at OPTIMIZER_STEP with a global norm, at a FLUSH, and
  // after the prologue. Keeps references to its arguments.
  EventEngine(const PlanGraph& graph, const ClusterSpec& cluster, Nanos norm_latency_ns,
              int num_steps, bool periodic);

  // Returns DeadlineExceeded, naming the waiting ranks, if the run cannot end.
  absl::Status Run();

  // Events in order of creation.
  const std::vector<CausedEvent>& events() const { return events_; }
  // num_steps + 1 times: the start of step 0; then, for each step, the earliest end of an
  // OPTIMIZER_STEP among the ranks of stage 0.
  const std::vector<Nanos>& step_start_ns() const { return step_start_ns_; }

 private:
  static constexpr Nanos kUnknown = -1;

  // Alarms of one moment are handled in this order. So a computation that ends when a collective
  // begins is not delayed by it.
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
    int version;     // of the rank's computation; stale alarms are ignored
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
  // A time and the event that determined it.
  struct Moment {
    Nanos time = 0;
    int cause = -1;
  };
  struct RankState {
    int step = 0;
    int next = 0;          // next instruction
    int last_event = -1;   // on the compute stream
    bool waiting = false;  // for an event whose time is still unknown
    bool done = false;
    // REDUCE_GRADS runs on its own streams. Number of reductions issued but not started, and the
    // latest end of those started.
    int open_reductions = 0;
    Moment reductions_end;
    Moment collective_free;
    Moment send_free, recv_free;
    // The running computation, if communication slows computation.
    int running = -1;  // event; -1 if none
    double remaining_ns = 0;
    Nanos updated_ns = 0;
    int transfers = 0;
    int collectives = 0;  // number that hold up the computation
    int version = 0;
  };
  // The first post of a message, whose other side is still to come.
  struct Post {
    Nanos time = kUnknown;
    int cause = -1;
  };
  // Arrival of a message, or of gathered parameters on one rank.
  struct Arrival {
    Nanos time = kUnknown;
    int event = -1;
  };
  // Ranks that have arrived at a collective.
  struct Rendezvous {
    int count = 0;
    Moment latest;
  };

  // Index into tables by step, which begin with the prologue.
  size_t At(int step, int num_per_step, int index) const {
    return static_cast<size_t>(step + 1) * num_per_step + index;
  }
  bool Active(const PlanNode& node, int step) const;
  static void UpdateLatest(const Moment& candidate, Moment* latest) {
    if (candidate.time > latest->time) *latest = candidate;
  }

  void Wake(int rank, Nanos now);
  void Advance(int rank, Nanos now);
  // Return false if the rank must be woken before it can continue.
  bool FinishStep(int rank, Nanos now);
  void MeetAfterPrologue(int rank, Nanos now);
  bool ReadyAt(int rank, const PlanNode& node, Nanos now, Moment* ready);
  bool Step(int rank, Nanos* now);
  bool Compute(int rank, const PlanNode& node, Nanos* now);
  bool Optimize(int rank, const PlanNode& node, Nanos* now);
  bool AwaitReductions(int rank, Nanos now);
  bool Collect(int rank, const PlanNode& node, Nanos now);
  bool Flush(int rank, const PlanNode& node, Nanos now);
  void StartEverywhere(Rendezvous* rendezvous);
  void Start(int rank, int instruction, const Moment& at, Nanos duration);
  bool Continue(int rank, Nanos* now);
  void PostMessage(int rank, const PlanNode& node, Nanos now);
  void StartTransfer(const PlanMessage& message, int index, int step, const Moment& ready,
                     Nanos now);
  void StartCollective(int step, const PlanNode& node, const Rendezvous& rendezvous);
  // Delays `start` until the shared links numbered [begin, end) in the graph's link_uses are free.
  void AwaitLinks(int begin, int end, Moment* start) const;
  void OccupyLinks(int begin, int end, Nanos start, int event);
  int AddEvent(const StreamEvent& event, int cause);
  void AddTransfer(int rank, Nanos start, Nanos end);
  void AddBlockingCollective(int rank, Nanos start, Nanos end);
  // Factor by which the running computation takes longer at present; 0 if it is stopped.
  double SlowDown(const RankState& state) const;
  void UpdateContention(const Alarm& alarm);
  void Reschedule(int rank, Nanos now);

  const PlanGraph& graph_;
  const ClusterSpec& cluster_;
  const int num_steps_;
  const bool periodic_;
  const int first_step_;   // -1: the prologue
  const bool contention_;  // true if communication slows or stops computation
  const Nanos norm_latency_;

  std::vector<RankState> ranks_;
  std::vector<Post> posts_;              // [step][message]
  std::vector<Arrival> arrivals_;        // [step][arrival]
  std::vector<Rendezvous> collectives_;  // [step][collective]
  std::vector<Rendezvous> optimizers_;   // [step]
  std::vector<Rendezvous> flushes_;      // [step][flush]
  Rendezvous prologue_;                  // the meeting after the prologue
  std::vector<Moment> links_free_;       // by shared link
  std::vector<CausedEvent> events_;
  std::vector<Nanos> step_start_ns_;
  std::vector<bool> is_first_stage_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<Alarm>> alarms_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_EVENT_ENGINE_H_
