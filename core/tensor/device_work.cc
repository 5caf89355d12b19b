#include "core/tensor/device_work.h"

namespace dpipe {
namespace internal {

std::atomic<WorkObserver*> work_observer{nullptr};

}  // namespace internal

void SetWorkObserver(WorkObserver* observer) {
  internal::work_observer.store(observer, std::memory_order_release);
}

}  // namespace dpipe
