// Messages and collectives between ranks: one interface, one implementation per transport.
//
// Completion: Send returns as soon as the message is on its way; its tensors must not be written
// afterwards, and stay alive as long as the transport needs them. PostRecv also returns at once,
// and the handle's Wait returns the tensors. Messages with one tag from one rank to another arrive
// in the order in which they were sent. Collectives on tensors are started and waited for later:
// they run alongside the rank's other work, one after another in the order in which they were
// started. Every rank of a group starts the group's collectives in the same order, and ranks of
// several groups start them so that no cycle of ranks waits for each other. Between the start and
// the end of Wait, a collective's inputs must not be written and its outputs must not be read.
//
// Every wait has a name and a deadline. When a deadline passes, or a rank calls Abort, every wait
// of every rank ends with a Status that says who waited for whom, for what and how long. Nothing
// hangs.
#ifndef DPIPE_CORE_COMM_COMMUNICATOR_H_
#define DPIPE_CORE_COMM_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/shard.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/base/time.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Shape and type of one tensor of a message. The receiver states it in advance, to allocate memory.
struct TensorSpec {
  Shape shape;
  DType dtype;
};

class PendingRecv {
 public:
  virtual ~PendingRecv() = default;
  // Blocks until the message has arrived and returns its tensors, in the order sent. Call at most
  // once.
  virtual absl::StatusOr<std::vector<Tensor>> Wait() = 0;
};

class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  // Blocks until this rank has its results. Call at most once. If it is not called, because the run
  // has failed, the tensors stay alive until the collective has ended.
  virtual absl::Status Wait() = 0;
  // Returns when the collective ended on this rank, on the session's clock: MonotonicNow(), unless
  // time is emulated. Valid after Wait.
  virtual Nanos end_ns() const = 0;
  // Returns the end as an event if the device runs asynchronously, because end_ns may have to wait
  // for such a device. Returns null for other devices.
  virtual std::shared_ptr<DeviceEvent> end() const { return nullptr; }
};

// One rank's endpoint. Used by that rank's thread, except Abort, which any thread may call.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  // Sends `tensors`. `what` names the message in errors, e.g. "activation of micro-batch 3".
  virtual absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                            const std::string& what) = 0;
  // Announces a message that this rank will receive. Wait returns Internal if the tensors that
  // arrive do not match `specs`.
  virtual absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                                std::vector<TensorSpec> specs,
                                                                const std::string& what) = 0;
  // Announces the ranks that this one will send to and receive from. Either all ranks call it
  // before their first message, or none does. Transports that connect two ranks at their first
  // message connect them here instead. On such a transport, without this call, a rank's thread
  // blocks at its first message to another rank until that rank posts the receive.
  virtual absl::Status ExpectMessages(absl::Span<const Rank> to, absl::Span<const Rank> from) {
    return absl::OkStatus();
  }
  // Messages sent and posted between these two calls form one run: none of them waits for another
  // one to complete, whereas a message outside a run may wait for earlier ones. Receives posted in
  // a run are waited for after its end. For transports that keep messages in queues.
  virtual void BeginMessages() {}
  virtual absl::Status EndMessages() { return absl::OkStatus(); }

  // True if a started message or collective occupies the device until other ranks join it. Waiting
  // for all of the device's work then also waits for these ranks.
  virtual bool occupies_device() const { return false; }

  using StartedCollective = absl::StatusOr<std::unique_ptr<PendingCollective>>;

  // Replaces every tensor (fp32, same shapes on every rank of `group`) by the sum over the group,
  // added in rank order: the same bits on every rank and in every run. `group` is increasing and
  // includes this rank.
  virtual StartedCollective StartAllReduceSum(absl::Span<const Rank> group,
                                              std::vector<Tensor> tensors,
                                              const std::string& what) = 0;
  // Fills every tensor of `full` (same shapes on every rank of `group`) from its shards: member j
  // of the group contributes shards[i], which holds the elements Shard{j, group size} of full[i].
  // fp32; `group` as above.
  virtual StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                           std::vector<Tensor> full, const std::string& what) = 0;
  // Adds this rank's shard of the sum of full[i] (fp32) over the group to shards[i]. The sum is
  // taken in rank order, as by StartAllReduceSum.
  virtual StartedCollective StartReduceScatterSum(absl::Span<const Rank> group,
                                                  std::vector<Tensor> full,
                                                  std::vector<Tensor> shards,
                                                  const std::string& what) = 0;

  // Blocking versions of the above.
  absl::Status AllReduceSum(absl::Span<const Rank> group, absl::Span<Tensor> tensors,
                            const std::string& what);
  absl::Status AllGather(absl::Span<const Rank> group, absl::Span<const Tensor> shards,
                         absl::Span<Tensor> full, const std::string& what);
  absl::Status ReduceScatterSum(absl::Span<const Rank> group, absl::Span<const Tensor> full,
                                absl::Span<Tensor> shards, const std::string& what);
  // Sums a few doubles over all ranks, in rank order. Blocks, and may be called while collectives
  // are in flight.
  virtual absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) = 0;

  // Ends every wait of every rank with `status`. Only the first call has an effect.
  virtual void Abort(const absl::Status& status) = 0;
};

// Argument checks and error messages shared by all transports.

// Returns InvalidArgument unless `peer` is one of the `size` ranks and not `rank` itself.
absl::Status CheckPeer(Rank rank, int size, Rank peer, const std::string& what);

// The ranks of a collective and this rank's position among them.
struct RankGroup {
  std::vector<int> ranks;  // increasing
  Shard own;               // this rank's share of data divided among them

  int size() const { return own.count; }
};
// Returns the group. CHECK-fails unless `group` is sorted and contains this rank once.
RankGroup GroupOf(Rank rank, absl::Span<const Rank> group, const std::string& what);

// Formats as "fp32[2, 3], bf16[4]".
std::string SpecNames(absl::Span<const TensorSpec> specs);
// Returns the shape and type of each tensor.
std::vector<TensorSpec> SpecsOf(absl::Span<const Tensor> tensors);
// Returns Internal, naming both: "rank 1: WHAT from rank 0 should be (fp32[3]) but is (fp32[2])".
absl::Status WrongSpecs(Rank to, Rank from, const std::string& what, const std::string& expected,
                        const std::string& received);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_COMMUNICATOR_H_
