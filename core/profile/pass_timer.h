// Measures times on the device's own clock, of the enqueued work and not of enqueuing it.
#ifndef DPIPE_CORE_PROFILE_PASS_TIMER_H_
#define DPIPE_CORE_PROFILE_PASS_TIMER_H_

#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/tensor/device.h"

namespace dpipe {

// Does not wait within a pass, so an asynchronous device stays as busy as in training. The device
// must outlive the timer.
class PassTimer {
 public:
  explicit PassTimer(Device* device) : device_(*device) {}

  void Begin() { begin_ = device_.RecordEvent(); }
  // Adds a sample to `samples`: the time since Begin or the last End.
  void End(std::vector<Nanos>* samples) {
    std::shared_ptr<DeviceEvent> end = device_.RecordEvent();
    spans_.push_back({samples, begin_, end});
    begin_ = std::move(end);
  }
  // Waits for the device and adds the samples. If `keep` is false, drops them (warm-up).
  absl::Status Finish(bool keep) {
    DPIPE_RETURN_IF_ERROR(device_.Synchronize());
    total_ns_ = 0;
    for (const Span& span : spans_) {
      const Nanos time_ns = span.end->time_ns() - span.begin->time_ns();
      total_ns_ += time_ns;
      if (keep) span.samples->push_back(time_ns);
    }
    spans_.clear();
    return absl::OkStatus();
  }
  // Returns the sum of the samples of the finished pass, kept or not.
  Nanos total_ns() const { return total_ns_; }

 private:
  struct Span {
    std::vector<Nanos>* samples;
    std::shared_ptr<DeviceEvent> begin, end;
  };

  Device& device_;
  std::shared_ptr<DeviceEvent> begin_;
  std::vector<Span> spans_;
  Nanos total_ns_ = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_PASS_TIMER_H_
