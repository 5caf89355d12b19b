// State shared by the ranks of an emulated cluster: messages and collectives in flight.
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
#include "core/emulation/network.h"
#include "core/emulation/virtual_clock.h"
#include "core/proto/trace.pb.h"

namespace dpipe {

// The instruction that a rank has reached: its communication is recorded under it, and has its
// number of bytes.
struct CurrentInstruction {
  int instruction = -1;
  int64_t step = 0;
  int64_t bytes = -1;  // -1: use the size of the tensors
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

// A collective, from the first rank's arrival to the last one's.
struct EmulatedCollective {
  struct Member {
    std::vector<Tensor> in, out;  // as in the communicator's contract; all-reduce: out only
    CurrentInstruction by;
  };
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::vector<int> ranks;
  std::map<int, Member> members;  // those that have arrived, by rank
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
  // Returns the rank's current instruction. Used by the rank's own thread only.
  CurrentInstruction& current(int rank) { return current_[rank]; }

  absl::StatusOr<std::shared_ptr<EmulatedMessage>> Send(int from, int to, int64_t tag,
                                                        std::vector<Tensor> tensors);
  absl::StatusOr<std::shared_ptr<EmulatedMessage>> PostRecv(int from, int to, int64_t tag);
  // Blocks until a message or a collective (both have `span`) is over. `what` names it.
  absl::Status Await(int rank, const std::shared_ptr<EmulatedMessage>& message,
                     const std::string& what);
  absl::Status Await(int rank, const std::shared_ptr<EmulatedCollective>& collective,
                     const std::string& what);
  absl::StatusOr<std::shared_ptr<EmulatedCollective>> StartCollective(
      int rank, CollectiveKind kind, std::vector<int> ranks, EmulatedCollective::Member member);
  absl::Status SumOverAll(int rank, absl::Span<double> values, const std::string& what);

  // Blocks until a computation that the rank began at `start_ns` is done. It takes `duration_ns` if
  // the device's communication does not slow it down.
  void Compute(int rank, Nanos start_ns, Nanos duration_ns);

  void Abort(const absl::Status& status);

  // Returns transfers and collectives since the last call, by start time.
  std::vector<TraceEvent> TakeEvents();

 private:
  // Messages between two ranks with one tag, of which one side has not arrived.
  struct Mailbox {
    std::deque<std::shared_ptr<EmulatedMessage>> sent, posted;
  };
  // Collectives of one kind over one group.
  struct Group {
    std::map<int, int64_t> calls;  // by rank
    std::map<int64_t, std::shared_ptr<EmulatedCollective>> open;
  };
  struct ValueSum {
    int64_t generation = 0;
    int arrived = 0;
    Nanos latest_ns = 0;
    std::map<int, std::vector<double>> brought;
    // Of the previous generation.
    std::vector<double> sum;
    Nanos end_ns = 0;
  };

  absl::Mutex& mutex() { return clock_->mutex(); }
  // Waits, with the mutex held, until `ready`, which depends on `object`.
  template <typename Ready>
  absl::Status ParkUntil(int rank, const void* object, const std::string& what, const Ready& ready);
  absl::Status StuckError() const;
  // Resumes the rank at that time if it waits for this object.
  void WakeAwaiting(int rank, const void* object, Nanos at_ns);
  void Deliver(int from, int to, EmulatedMessage* message);
  void Complete(EmulatedCollective* collective);
  void AddEvent(int rank, TraceEvent::Stream stream, const CurrentInstruction& by, TimeSpan span);
  void SleepUntil(int rank, Nanos at_ns);

  const int num_ranks_;
  VirtualClock* const clock_;
  EmulatedNetwork network_;  // guarded by the clock's mutex, as all below except current_
  std::vector<CurrentInstruction> current_;  // each element is used by its rank only
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

// The computation of collectives, once every rank has arrived.
//
// Computes every member's outputs, as the communicator's contract says: sums in rank order.
void ExchangeTensors(EmulatedCollective* collective);

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_EMULATED_WIRES_H_
