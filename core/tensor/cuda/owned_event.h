// An event that is destroyed together with its owner.
#ifndef DPIPE_CORE_TENSOR_CUDA_OWNED_EVENT_H_
#define DPIPE_CORE_TENSOR_CUDA_OWNED_EVENT_H_

#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

class OwnedEvent {
 public:
  // `driver` must outlive this object.
  OwnedEvent(Driver* driver, Event event) : driver_(driver), event_(event) {}
  ~OwnedEvent() { driver_->DestroyEvent(event_); }
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  Event get() const { return event_; }

 private:
  Driver* const driver_;
  const Event event_;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_OWNED_EVENT_H_
