// What a device's work belongs to: operations name what they enqueue, for an account of its time.
#ifndef DPIPE_CORE_TENSOR_DEVICE_WORK_H_
#define DPIPE_CORE_TENSOR_DEVICE_WORK_H_

#include <atomic>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace dpipe {

// Told, on the thread that enqueues, of each operation's begin and end. Calls nest.
class WorkObserver {
 public:
  virtual ~WorkObserver() = default;
  // An empty `operation` is that of the work around it.
  virtual void Begin(absl::string_view operation, absl::string_view detail) = 0;
  // Of the innermost work: floating-point operations, and bytes that must be moved.
  virtual void Count(double flops, double bytes) = 0;
  virtual void End() = 0;
};

// Null, as at first: nobody. To be called while no work is being enqueued.
void SetWorkObserver(WorkObserver* observer);

namespace internal {
extern std::atomic<WorkObserver*> work_observer;
}

// One load where nobody observes.
inline WorkObserver* ObserverOfWork() {
  return internal::work_observer.load(std::memory_order_acquire);
}

// What the calling thread enqueues while this lives is one operation's.
class WorkScope {
 public:
  explicit WorkScope(absl::string_view operation) : observer_(ObserverOfWork()) {
    if (observer_ != nullptr) observer_->Begin(operation, "");
  }
  // The operation around it, with sizes: `detail` is called only if somebody observes.
  explicit WorkScope(absl::FunctionRef<std::string()> detail) : observer_(ObserverOfWork()) {
    if (observer_ != nullptr) observer_->Begin("", detail());
  }
  ~WorkScope() {
    if (observer_ != nullptr) observer_->End();
  }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  WorkObserver* const observer_;
};

// Adds to the innermost scope.
inline void CountWork(double flops, double bytes) {
  if (WorkObserver* const observer = ObserverOfWork()) observer->Count(flops, bytes);
}

}  // namespace dpipe

#endif  // DPIPE_CORE_TENSOR_DEVICE_WORK_H_
