// Copies between pageable host memory and a GPU.
#ifndef DPIPE_CORE_TENSOR_CUDA_PINNED_STAGING_H_
#define DPIPE_CORE_TENSOR_CUDA_PINNED_STAGING_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// A few pinned buffers through which copies pass in pieces: while the GPU moves one piece, the host
// fills or empties the next. Thread-safe. `driver` and all streams must outlive this object.
class PinnedStaging {
 public:
  static constexpr int kNumBuffers = 4;
  static constexpr int64_t kBufferBytes = int64_t{8} << 20;

  PinnedStaging(Driver* driver, const Context& context) : driver_(driver), context_(context) {}
  ~PinnedStaging();
  PinnedStaging(const PinnedStaging&) = delete;
  PinnedStaging& operator=(const PinnedStaging&) = delete;

  // Enqueues a copy on `stream`. `host` may be overwritten as soon as this returns.
  absl::Status ToDevice(void* to, const void* host, int64_t size_bytes, Stream stream);
  // Copies to `host`; blocks until it has the bytes.
  absl::Status ToHost(void* host, const void* from, int64_t size_bytes, Stream stream);

 private:
  // A buffer is free once `event` is done (null: never used).
  struct Buffer {
    void* data = nullptr;
    Event event = nullptr;
  };

  // Returns the next buffer in turn; blocks until the GPU is done with it.
  absl::StatusOr<Buffer*> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Driver* const driver_;
  const Context context_;
  absl::Mutex mutex_;
  Buffer buffers_[kNumBuffers] ABSL_GUARDED_BY(mutex_);
  int next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_PINNED_STAGING_H_
