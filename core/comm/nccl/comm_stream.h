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
#include "core/base/status.h"
#include "core/cuda/nccl_api.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// An event of the stream after an operation, destroyed with its last owner.
class CommEvent {
 public:
  CommEvent(cuda::Driver* driver, cuda::Event event) : driver_(driver), event_(event) {}
  ~CommEvent() { driver_->DestroyEvent(event_); }
  CommEvent(const CommEvent&) = delete;
  CommEvent& operator=(const CommEvent&) = delete;
  cuda::Event get() const { return event_; }

 private:
  cuda::Driver* const driver_;
  const cuda::Event event_;
};

// Operations run one after another, in the order of their Enqueue. Each waits for what the device
// has enqueued before it. Thread-safe.
class CommStream {
 public:
  // What an operation is enqueued with.
  struct Turn {
    ncclComm_t comm;
    cuda::Stream stream;
    // To be called after each GroupEnd, and before anything else is enqueued or NCCL is called
    // again: communicators do not block, so that NCCL may still be about to put on the stream what
    // it was told.
    std::function<absl::Status()> settle;
  };
  struct Operation {
    std::string what;             // "activation of micro-batch 3 from rank 1"
    std::vector<Tensor> tensors;  // kept until it is done
    // Calls NCCL and the driver, on the stream. NCCL's calls stand between GroupStart and GroupEnd.
    std::function<absl::Status(const Turn& turn)> enqueue = nullptr;
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

  absl::StatusOr<std::shared_ptr<CommEvent>> Enqueue(Operation operation);

  // Lets go of what is done and looks after what is not. `passed` is the time since the last look.
  // DeadlineExceeded where the operation whose turn it is has had it for longer than the deadline,
  // while nothing on this rank's side kept it from running; Unavailable where NCCL reports an
  // error. Both name it and the time.
  absl::Status Look(absl::Duration passed);
  bool Idle() const;  // nothing is under way

  // What is under way: the device waits for it, or, where `begun` is false, will when it has made
  // the inputs.
  struct Wait {
    std::string what;
    bool begun;
    absl::Duration waited;  // by the last look
  };
  // Nothing can be enqueued from now on. What is under way first, if anything is.
  std::optional<Wait> Close();

  // Ends everything under way, without results. May be called at any time, more than once.
  void Abort();

  static absl::Status ToStatus(const NcclApi& api, ncclResult_t result, const std::string& call);

 private:
  struct UnderWay {
    std::string what;
    std::vector<Tensor> tensors;
    // Its turn has come, and the device has made its inputs.
    std::shared_ptr<CommEvent> begin = nullptr;
    std::shared_ptr<CommEvent> end = nullptr;
    absl::Duration waited = absl::ZeroDuration();
  };

  CommStream(const NcclApi* api, std::shared_ptr<Device> device, cuda::Stream stream,
             std::string name, absl::Duration deadline);
  absl::StatusOr<std::shared_ptr<CommEvent>> Record() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until what NCCL does in the background is done.
  absl::Status Settle(absl::Time until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const NcclApi* const api_;
  const std::shared_ptr<Device> device_;
  cuda::Driver& driver_;
  const cuda::Stream stream_;
  const std::string name_;
  const absl::Duration deadline_;
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  ncclComm_t comm_ ABSL_GUARDED_BY(mutex_) = nullptr;  // from Connect to Abort
  std::deque<UnderWay> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_COMM_STREAM_H_
