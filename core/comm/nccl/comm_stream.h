// One NCCL communicator with the stream that it works on, and what is under way there.
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
#include "core/comm/nccl/nccl_call.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// An event of the stream after an operation, destroyed with its last owner.
class CommEvent : public cuda::OwnedEvent {
 public:
  using cuda::OwnedEvent::OwnedEvent;
  // What the device is given from now on waits for the operation.
  absl::Status HoldUp(const cuda::CudaDevice& device) const {
    return device.driver().Wait(device.stream(), get());
  }
};

// Operations run one after another, in the order of their posting. Each waits for what the device
// has enqueued before it. Operations come from one thread; Look, Idle, Close and Abort may be
// called by any.
class CommStream {
 public:
  struct Operation {
    std::string what;  // "activation of micro-batch 3 from rank 1"
    // What the stream reads and writes: their blocks are not used again before it is through.
    std::vector<Tensor> tensors;
    // Calls NCCL, in groups, and the driver.
    std::function<absl::Status(const NcclCall& call)> enqueue = nullptr;
    // Null, or what comes on the stream after the last group.
    std::function<absl::Status(const NcclCall& call)> enqueue_after = nullptr;
  };

  // `deadline`: of joining, and of every operation.
  static absl::StatusOr<std::unique_ptr<CommStream>> Create(const NcclApi* api,
                                                            std::shared_ptr<Device> device,
                                                            const std::string& name,
                                                            absl::Duration deadline);
  // Aborts what is under way.
  ~CommStream();

  // Makes the communicator, of `size` ranks: every rank calls this with the same `id`, at the same
  // time, and before anything else but Abort. DeadlineExceeded where not all have come within the
  // deadline.
  absl::Status Connect(const std::string& id, int rank, int size);

  // Enqueues an operation, in two halves: its last group may need other ranks to call too before it
  // comes to the stream, and other streams' operations may have to be posted before they do. Each
  // Post that succeeds is followed by one Finish, which waits for that.
  absl::Status Post(Operation operation);
  absl::StatusOr<std::shared_ptr<CommEvent>> Finish();
  // Both.
  absl::StatusOr<std::shared_ptr<CommEvent>> Enqueue(Operation operation);

  // Forgets what is done and looks after what is not. `passed` is the time since the last look.
  // DeadlineExceeded where the operation whose turn it is has had it for longer than the deadline,
  // while nothing on this rank's side kept it from running; Unavailable where NCCL reports an
  // error. Both name it and the time.
  absl::Status Look(absl::Duration passed);
  // Whether the stream has come to the end of all operations.
  bool Idle() const;

  // What is under way: the device waits for it, or, where `begun` is false, will when it has made
  // the inputs and NCCL has connected the ranks.
  struct Wait {
    std::string what;
    bool begun;
    absl::Duration waited;  // by the last look
  };
  // Nothing can be enqueued from now on. What is under way first, if anything is.
  std::optional<Wait> Close();

  // Ends everything under way, without results. May be called at any time, more than once. NCCL
  // waits for its work on this stream, which may wait for that of another communicator of the
  // device: all of them are to be aborted at the same time.
  void Abort();
  static void AbortAll(absl::Span<CommStream* const> streams);

 private:
  struct UnderWay {
    std::string what;
    // Its turn has come, and the device has made its inputs.
    std::shared_ptr<CommEvent> begin = nullptr;
    std::shared_ptr<CommEvent> end = nullptr;
    absl::Duration waited = absl::ZeroDuration();
  };

  struct Posted {
    UnderWay under_way;
    Operation operation;
    std::vector<Tensor> here;  // the operation's tensors, on stream_device_
    absl::Status status;       // of enqueuing
    bool settling = false;     // its thread is in Settle
  };

  CommStream(const NcclApi* api, std::shared_ptr<Device> device,
             std::shared_ptr<cuda::CudaDevice> stream_device, std::string name,
             absl::Duration deadline);
  absl::StatusOr<std::shared_ptr<CommEvent>> Record();
  // Waits until what NCCL does in the background for `what` is done.
  absl::Status Settle(const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether it is; an error of NCCL names `what`.
  absl::StatusOr<bool> IsSettled(const std::string& what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsReached(const CommEvent& event) const;
  // The operation whose turn it is, if it is one that Look measures; else null.
  UnderWay* Current() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  NcclCall CallFor(const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_);

  const NcclApi* const api_;
  const std::shared_ptr<Device> device_;
  // Has the stream. What is a tensor of it goes back to the device when the stream is through.
  const std::shared_ptr<cuda::CudaDevice> stream_device_;
  cuda::Driver& driver_;
  const cuda::Stream stream_;
  const std::string name_;
  const absl::Duration deadline_;
  // Held for calls of NCCL on comm_, never for work that is put on the stream (nccl_call.h).
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  ncclComm_t comm_ ABSL_GUARDED_BY(mutex_) = nullptr;  // from Connect to Abort
  std::unique_ptr<Posted> posted_ ABSL_GUARDED_BY(mutex_);
  // The tensors of operations that NCCL has not settled: it may still put them on the stream, until
  // the abort.
  std::vector<Tensor> unsettled_ ABSL_GUARDED_BY(mutex_);
  std::deque<UnderWay> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_COMM_STREAM_H_
