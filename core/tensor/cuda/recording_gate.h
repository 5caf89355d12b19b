// Keeps other threads off a stream while one thread records the work that it enqueues there.
#ifndef DPIPE_CORE_TENSOR_CUDA_RECORDING_GATE_H_
#define DPIPE_CORE_TENSOR_CUDA_RECORDING_GATE_H_

#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dpipe::cuda {

// Thread-safe. No lock is held while the gate is closed, so the recorded work may take any lock.
class RecordingGate {
 public:
  // Blocks until no thread is enqueuing anything, and makes later ones wait until Open. Only one
  // thread at a time may hold the gate closed.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](RecordingGate* self)
             ABSL_NO_THREAD_SAFETY_ANALYSIS { return self->uses_ == 0 && !self->closed_; },
        this));
    closed_ = true;
    recorder_ = std::this_thread::get_id();
  }
  void Open() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    recorder_ = std::thread::id();
    closed_ = false;
  }
  // True if the calling thread has closed the gate.
  bool recording() const { return recorder_ == std::this_thread::get_id(); }

  // Allows the calling thread to enqueue during the lifetime of this object. The constructor blocks
  // until the gate is open, unless the calling thread is the one that closed it.
  class Use {
   public:
    explicit Use(RecordingGate* gate) : gate_(gate->recording() ? nullptr : gate) {
      if (gate_ != nullptr) gate_->Enter();
    }
    ~Use() {
      if (gate_ != nullptr) gate_->Leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    RecordingGate* const gate_;
  };

 private:
  void Enter() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](bool* closed) { return !*closed; }, &closed_));
    ++uses_;
  }
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --uses_;
  }

  std::atomic<std::thread::id> recorder_{};
  absl::Mutex mutex_;
  int uses_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_RECORDING_GATE_H_
