// Messages and collectives between ranks: one interface, one sibling a transport.
//
// Completion: Send returns as soon as the message is on its way; the tensors must not be written
// afterwards, and stay alive as long as the transport needs them. PostRecv returns at once too; the
// handle's Wait gives the tensors. Messages from one rank to another with one tag arrive in the
// order in which they were sent. Collectives on tensors are started and waited for later: they run
// beside what the rank does meanwhile, one after another in the order of their starting. Every rank
// of a group starts the group's collectives in the same order, and ranks of several groups start
// them so that no cycle of ranks waits for each other. Between start and the end of Wait, what a
// collective reads must not be written and what it writes must not be read.
//
// Every wait has a name and a deadline. When one passes, or a rank calls Abort, every wait of every
// rank ends with a Status that says who waited for whom, for what and how long: nothing hangs.
#ifndef DPIPE_CORE_COMM_COMMUNICATOR_H_
#define DPIPE_CORE_COMM_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/base/time.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// What a message consists of; the receiver states it beforehand, so that it can make room.
struct TensorSpec {
  Shape shape;
  DType dtype;
};

class PendingRecv {
 public:
  virtual ~PendingRecv() = default;
  // Blocks until the message is here and returns its tensors, in the order sent. Once only.
  virtual absl::StatusOr<std::vector<Tensor>> Wait() = 0;
};

class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  // Blocks until this rank has its results. Once only. Where it is not called, because the run has
  // failed, the tensors live on until the collective has ended.
  virtual absl::Status Wait() = 0;
  // When it was done on this rank, on the session's clock: MonotonicNow(), unless time is emulated.
  // Valid after Wait.
  virtual Nanos end_ns() const = 0;
  // The same of a device that runs asynchronously, which end_ns may have to wait for; else null.
  virtual std::shared_ptr<DeviceEvent> end() const { return nullptr; }
};

// One rank's end. Used by that rank's thread, except Abort, which any thread may call.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual Rank rank() const = 0;
  virtual int size() const = 0;

  // `what` names the message in errors, e.g. "activation of micro-batch 3".
  virtual absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                            const std::string& what) = 0;
  // Internal on Wait where what arrives is not of `specs`.
  virtual absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                                std::vector<TensorSpec> specs,
                                                                const std::string& what) = 0;
  // The ranks that this one will send to and receive from. Called by all ranks, before they do, or
  // by none: transports that connect two ranks when they first talk do it here at once, and
  // otherwise hold a rank's first message to another up on the rank's thread until the other one
  // posts the receive.
  virtual absl::Status ExpectMessages(absl::Span<const Rank> to, absl::Span<const Rank> from) {
    return absl::OkStatus();
  }
  // What is sent and posted between the two calls is one run of messages: none of them waits for
  // another one to be through, as a message outside of runs may for those before it. What is posted
  // in a run is waited for after its end. For transports that keep messages in queues.
  virtual void BeginMessages() {}
  virtual absl::Status EndMessages() { return absl::OkStatus(); }

  // Whether what it has started lies on the device until other ranks come to it: who waits for all
  // of the device's work then waits for these ranks too.
  virtual bool occupies_device() const { return false; }

  using StartedCollective = absl::StatusOr<std::unique_ptr<PendingCollective>>;

  // Replaces every tensor (fp32, same shapes on every rank of `group`) by the sum over the group,
  // added in rank order: the same bits on every rank and on every run. `group` is increasing and
  // has this rank.
  virtual StartedCollective StartAllReduceSum(absl::Span<const Rank> group,
                                              std::vector<Tensor> tensors,
                                              const std::string& what) = 0;
  // Fills every tensor of `full` (same shapes on every rank of `group`) from its shards: the rank
  // that is number j of the group brings shards[i], whose elements are Shard{j, group size} of
  // those of full[i]. fp32; `group` as above.
  virtual StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                           std::vector<Tensor> full, const std::string& what) = 0;
  // The reverse: adds to shards[i] this rank's shard of the sum of `full` (fp32) over the group.
  // The sum is taken in rank order, as by StartAllReduceSum.
  virtual StartedCollective StartReduceScatterSum(absl::Span<const Rank> group,
                                                  std::vector<Tensor> full,
                                                  std::vector<Tensor> shards,
                                                  const std::string& what) = 0;

  // The same, started and waited for.
  absl::Status AllReduceSum(absl::Span<const Rank> group, absl::Span<Tensor> tensors,
                            const std::string& what);
  absl::Status AllGather(absl::Span<const Rank> group, absl::Span<const Tensor> shards,
                         absl::Span<Tensor> full, const std::string& what);
  absl::Status ReduceScatterSum(absl::Span<const Rank> group, absl::Span<const Tensor> full,
                                absl::Span<Tensor> shards, const std::string& what);
  // Sums a few doubles over all ranks, in rank order; blocks, also while collectives are under way.
  virtual absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) = 0;

  // Ends every wait of every rank with `status`; the first call counts.
  virtual void Abort(const absl::Status& status) = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_COMMUNICATOR_H_
