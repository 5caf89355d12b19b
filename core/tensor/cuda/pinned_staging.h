// The way between pageable host memory and a GPU.
#ifndef DPIPE_CORE_TENSOR_CUDA_PINNED_STAGING_H_
#define DPIPE_CORE_TENSOR_CUDA_PINNED_STAGING_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// A few pinned buffers that copies pass through in pieces: while the GPU moves one piece, the host
// fills or empties the next. Thread-safe. `driver` and streams outlive it.
class PinnedStaging {
 public:
  static constexpr int kNumBuffers = 4;
  static constexpr int64_t kBufferBytes = int64_t{8} << 20;

  PinnedStaging(Driver* driver, const Context& context) : driver_(driver), context_(context) {}
  ~PinnedStaging();
  PinnedStaging(const PinnedStaging&) = delete;
  PinnedStaging& operator=(const PinnedStaging&) = delete;

  // Enqueued on `stream`; `host` may be written again on return.
  absl::Status ToDevice(void* to, const void* host, int64_t size_bytes, Stream stream);
  // Returns when `host` has the bytes.
  absl::Status ToHost(void* host, const void* from, int64_t size_bytes, Stream stream);

 private:
  // Free when `event` (null: it has never been used) is done.
  struct Buffer {
    void* data = nullptr;
    Event event = nullptr;
  };

  // The next buffer in turn, when the GPU is done with it.
  absl::StatusOr<Buffer*> Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Driver* const driver_;
  const Context context_;
  absl::Mutex mutex_;
  Buffer buffers_[kNumBuffers] ABSL_GUARDED_BY(mutex_);
  int next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_PINNED_STAGING_H_
