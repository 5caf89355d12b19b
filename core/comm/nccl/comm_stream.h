// One NCCL communicator with its stream, and the operations in flight on it.
#ifndef DPIPE_CORE_COMM_NCCL_COMM_STREAM_H_
#define DPIPE_CORE_COMM_NCCL_COMM_STREAM_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/nccl/nccl_call.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// An event recorded on the stream after an operation. Destroyed with its last owner.
class CommEvent : public cuda::OwnedEvent {
 public:
  using cuda::OwnedEvent::OwnedEvent;
  // Makes work that is enqueued on the device from now on wait for the operation.
  absl::Status BlockDevice(const cuda::CudaDevice& device) const {
    return device.driver().Wait(device.stream(), get());
  }
};

// Operations run one after another, in the order in which they were posted. Each waits for the work
// that the device has enqueued before it. Operations come from one thread; any thread may call
// CheckProgress, Idle, Close and Abort.
class CommStream {
 public:
  struct Operation {
    std::string what;  // "activation of micro-batch 3 from rank 1"
    // Tensors that the stream reads and writes. Their blocks are not reused before it is done.
    std::vector<Tensor> tensors;
    // Calls NCCL, in groups, and the driver.
    std::function<absl::Status(const NcclCall& call)> enqueue = nullptr;
    // Null, or enqueues work on the stream after the last group.
    std::function<absl::Status(const NcclCall& call)> enqueue_after = nullptr;
  };

  // Creates a stream without a communicator. `deadline` applies to joining and to every operation.
  static absl::StatusOr<std::unique_ptr<CommStream>> Create(const NcclApi* api,
                                                            std::shared_ptr<Device> device,
                                                            const std::string& name,
                                                            absl::Duration deadline);
  // Aborts the operations in flight.
  ~CommStream();

  // Creates the communicator, of `size` ranks. Every rank calls this with the same `id`, at the
  // same time, before any other method except Abort. Returns DeadlineExceeded if not all ranks have
  // joined within the deadline.
  absl::Status Connect(const std::string& id, int rank, int size);

  // Post and Finish enqueue an operation in two steps. Its last group may reach the stream only
  // after other ranks have called too, and these may first need operations on this rank's other
  // streams. Each successful Post is followed by one Finish, which blocks until the group is
  // enqueued.
  absl::Status Post(Operation operation);
  absl::StatusOr<std::shared_ptr<CommEvent>> Finish();
  // Posts and finishes an operation.
  absl::StatusOr<std::shared_ptr<CommEvent>> Enqueue(Operation operation);

  // Removes completed operations and checks the current one. `passed` is the time since the last
  // call. Returns DeadlineExceeded if the current operation has run for longer than the deadline
  // while nothing on this rank's side kept it from running, or Unavailable if NCCL reports an
  // error. Both messages name the operation and the time.
  absl::Status CheckProgress(absl::Duration passed);
  // True if the stream has completed all operations.
  bool Idle() const;

  // An operation in flight. The device waits for it if `begun`. Otherwise the device will wait once
  // it has computed the inputs and NCCL has connected the ranks.
  struct Wait {
    std::string what;
    bool begun;
    absl::Duration waited;  // up to the last call of CheckProgress
  };
  // Rejects further operations. Returns the first operation in flight, if any.
  std::optional<Wait> Close();

  // Ends all operations in flight, without results. May be called at any time, and repeatedly. NCCL
  // waits for its work on this stream, which may wait for work of another communicator of the
  // device, so abort all of these at the same time.
  void Abort();
  static void AbortAll(absl::Span<CommStream* const> streams);

 private:
  struct InFlight {
    std::string what;
    // Reached when it is this operation's turn and the device has computed its inputs.
    std::shared_ptr<CommEvent> begin = nullptr;
    std::shared_ptr<CommEvent> end = nullptr;
    absl::Duration waited = absl::ZeroDuration();
  };

  struct Posted {
    InFlight under_way;
    Operation operation;
    std::vector<Tensor> here;  // the operation's tensors, on stream_device_
    absl::Status status;       // of enqueuing
    bool settling = false;     // its thread is in Settle
  };

  CommStream(const NcclApi* api, std::shared_ptr<Device> device,
             std::shared_ptr<cuda::CudaDevice> stream_device, std::string name,
             absl::Duration deadline);
  absl::StatusOr<std::shared_ptr<CommEvent>> Record();
  // Blocks until NCCL has done its background work for `what`.
  absl::Status Settle(const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if it has. An error of NCCL names `what`.
  absl::StatusOr<bool> IsSettled(const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsReached(const CommEvent& event) const;
  // Returns the current operation if CheckProgress measures its time; otherwise null.
  InFlight* Current() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  NcclCall CallFor(const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_);

  const NcclApi* const api_;
  const std::shared_ptr<Device> device_;
  // Owns the stream. Tensors on this device return to `device_` when the stream is done with them.
  const std::shared_ptr<cuda::CudaDevice> stream_device_;
  cuda::Driver& driver_;
  const cuda::Stream stream_;
  const std::string name_;
  const absl::Duration deadline_;
  // Held during NCCL's calls on comm_, never while work is enqueued on the stream (nccl_call.h).
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  ncclComm_t comm_ ABSL_GUARDED_BY(mutex_) = nullptr;  // from Connect to Abort
  std::unique_ptr<Posted> posted_ ABSL_GUARDED_BY(mutex_);
  // Tensors of operations that NCCL has not settled. It may still enqueue these operations on the
  // stream until the abort.
  std::vector<Tensor> unsettled_ ABSL_GUARDED_BY(mutex_);
  std::deque<InFlight> in_flight_ ABSL_GUARDED_BY(mutex_);
};

// The communicators of one rank.

// NCCL ids, one per communicator, that the ranks of a job must agree on before they can
// communicate. One rank creates them, and the code that starts the ranks distributes them.
struct NcclIds {
  std::string up, down, collectives;
};
absl::StatusOr<NcclIds> NewNcclIds(const NcclApi& api);

// Messages use two communicators, one per direction, because a rank that waits for a message from a
// lower rank must still be able to answer a higher one.
struct RankStreams {
  std::unique_ptr<CommStream> up;           // messages from lower ranks to higher ones
  std::unique_ptr<CommStream> down;         // messages from higher ranks to lower ones
  std::unique_ptr<CommStream> collectives;  // and sums of doubles

  // Creates the streams without communicators. `deadline` applies to joining and to every
  // operation.
  static absl::StatusOr<RankStreams> Create(const NcclApi* api,
                                            const std::shared_ptr<Device>& device,
                                            absl::Duration deadline);
  // Returns when all ranks have joined all three communicators.
  absl::Status Connect(const NcclIds& ids, Rank rank, int size) const;
  std::vector<CommStream*> all() const { return {up.get(), down.get(), collectives.get()}; }
  bool Idle() const { return up->Idle() && down->Idle() && collectives->Idle(); }
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_COMM_STREAM_H_
