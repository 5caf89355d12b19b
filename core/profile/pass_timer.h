// Times passes of layers on the device's own clock.
#ifndef DPIPE_CORE_PROFILE_PASS_TIMER_H_
#define DPIPE_CORE_PROFILE_PASS_TIMER_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/tensor/device.h"

namespace dpipe {

// Measures times on the device's own clock, of the enqueued work and not of enqueuing it.
//
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

// Lets the host enqueue a pass before the device runs it, as in training.
//
// Small layers have many kernels that take the host longer to enqueue than the device to run (on an
// H200, a pass of a text encoder takes 36 ms and 8 ms). A layer timed in isolation therefore takes
// the host's time. In training its kernels are enqueued while the device is busy with earlier work,
// so it takes the device's time.
//
// Computes how long the device waits before a pass: as long as the host took to enqueue the last
// one.
class HeadStart {
 public:
  // The kind of component, which determines what bounds a pass if the host needs longer than the
  // device for it.
  // - A frozen component runs behind longer work of others, so the device bounds it.
  // - The passes of a backbone follow each other, so the host never gets ahead. It gets no head
  //   start.
  enum class Of { kFrozen, kBackbone };

  explicit HeadStart(Of of) : of_(of) {}

  // Returns the head start of the next pass.
  Nanos next_ns() const { return next_ns_; }

  // Reports how long the host took to enqueue a pass, and how long the device took to run it.
  void Took(Nanos host_ns, Nanos device_ns) {
    is_host_bound_ = is_host_bound_ || (was_given() && host_ns > device_ns);
    next_ns_ = of_ == Of::kBackbone && is_host_bound_ ? 0 : std::min(host_ns, kMaxNs);
  }

 private:
  // The first pass makes plans and compiles kernels, which takes seconds.
  static constexpr Nanos kMaxNs = 100 * kNanosPerMilli;

  // Without a head start, the device's time includes the host's.
  bool was_given() const { return next_ns_ > 0; }

  const Of of_;
  Nanos next_ns_ = 0;
  bool is_host_bound_ = false;
};

// Enqueues a wait on a GPU. Does nothing on devices that run work immediately.
void EnqueueWait(Device* device, Nanos duration_ns);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_PASS_TIMER_H_
