// What the ranks of an emulated cluster share: messages and collectives on their way.
#ifndef DPIPE_CORE_EMULATION_EMULATED_WIRES_H_
#define DPIPE_CORE_EMULATION_EMULATED_WIRES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/emulation/interference.h"
#include "core/emulation/network.h"
#include "core/emulation/virtual_clock.h"
#include "core/proto/trace.pb.h"

namespace dpipe {

// Which instruction a rank is at: what its communication is recorded as, and how many bytes it
// stands for.
struct CurrentInstruction {
  int instruction = -1;
  int64_t step = 0;
  int64_t bytes = -1;  // -1: those of the tensors themselves
};

// One side of a message.
struct MessageSide {
  bool here = false;
  Nanos at_ns = 0;
  CurrentInstruction by;
};

struct EmulatedMessage {
  MessageSide send, recv;
  std::vector<Tensor> tensors;
  bool delivered = false;
  TimeSpan span;
};

// A collective, from the first rank's coming to the last one's.
struct EmulatedCollective {
  struct Member {
    std::vector<Tensor> in, out;  // as the communicator's contract names them; all-reduce: out only
    CurrentInstruction by;
  };
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::vector<int> ranks;
  std::map<int, Member> members;  // that have come, by rank
  Nanos latest_ns = 0;
  bool complete = false;
  TimeSpan span;
};

class EmulatedWires {
 public:
  // `cost` and `clock` outlive this.
  EmulatedWires(const CostModel& cost, VirtualClock* clock)
      : num_ranks_(cost.num_devices()),
        clock_(clock),
        network_(cost),
        current_(num_ranks_),
        awaited_(num_ranks_),
        interference_(cost.cluster(), num_ranks_) {}

  int num_ranks() const { return num_ranks_; }
  // Of the rank's own thread.
  CurrentInstruction& current(int rank) { return current_[rank]; }

  absl::StatusOr<std::shared_ptr<EmulatedMessage>> Send(int from, int to, int64_t tag,
                                                        std::vector<Tensor> tensors);
  absl::StatusOr<std::shared_ptr<EmulatedMessage>> PostRecv(int from, int to, int64_t tag);
  // Of a message or a collective (both have `span`): until it is over. `what` names it.
  absl::Status Await(int rank, const std::shared_ptr<EmulatedMessage>& message,
                     const std::string& what);
  absl::Status Await(int rank, const std::shared_ptr<EmulatedCollective>& collective,
                     const std::string& what);
  absl::StatusOr<std::shared_ptr<EmulatedCollective>> StartCollective(
      int rank, CollectiveKind kind, std::vector<int> ranks, EmulatedCollective::Member member);
  absl::Status SumOverAll(int rank, absl::Span<double> values, const std::string& what);

  // Blocks until what the rank computes from `start_ns` on is done, which takes `duration_ns` where
  // no communication of the device slows it down.
  void Compute(int rank, Nanos start_ns, Nanos duration_ns);

  void Abort(const absl::Status& status);

  // Transfers and collectives since the last call, by start time.
  std::vector<TraceEvent> TakeEvents();

 private:
  // The messages between two ranks with one tag, of which one side has not come.
  struct Mailbox {
    std::deque<std::shared_ptr<EmulatedMessage>> sent, posted;
  };
  // The collectives of one kind over one group.
  struct Group {
    std::map<int, int64_t> calls;  // by rank
    std::map<int64_t, std::shared_ptr<EmulatedCollective>> open;
  };
  struct ValueSum {
    int64_t generation = 0;
    int arrived = 0;
    Nanos latest_ns = 0;
    std::map<int, std::vector<double>> brought;
    // Of the generation before.
    std::vector<double> sum;
    Nanos end_ns = 0;
  };

  absl::Mutex& mutex() { return clock_->mutex(); }
  // Waits, with the mutex held, until `ready`, which is a matter of `object`.
  template <typename Ready>
  absl::Status ParkUntil(int rank, const void* object, const std::string& what, const Ready& ready);
  absl::Status StuckError() const;
  // The rank goes on at that time, if it is this object that it waits for.
  void WakeAwaiting(int rank, const void* object, Nanos at_ns);
  void Deliver(int from, int to, EmulatedMessage* message);
  void Complete(EmulatedCollective* collective);
  void AddEvent(int rank, TraceEvent::Stream stream, const CurrentInstruction& by, TimeSpan span);
  void SleepUntil(int rank, Nanos at_ns);

  const int num_ranks_;
  VirtualClock* const clock_;
  EmulatedNetwork network_;                  // under the clock's mutex, as all below but current_
  std::vector<CurrentInstruction> current_;  // each its rank's alone
  absl::Status failure_;
  struct Awaited {
    const void* object = nullptr;
    std::string what;
  };
  std::vector<Awaited> awaited_;  // by rank; no object: it does not wait
  std::map<std::tuple<int, int, int64_t>, Mailbox> mailboxes_;
  std::map<std::pair<CollectiveKind, std::vector<int>>, Group> groups_;
  ValueSum values_;
  Interference interference_;
  std::vector<TraceEvent> events_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_EMULATED_WIRES_H_
