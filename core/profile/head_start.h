// Lets the host enqueue a pass before the device runs it, as in training.
//
// Small layers have many kernels that take the host longer to enqueue than the device to run (on an
// H200, a pass of a text encoder takes 36 ms and 8 ms). A layer timed in isolation therefore takes
// the host's time. In training its kernels are enqueued while the device is busy with earlier work,
// so it takes the device's time.
#ifndef DPIPE_CORE_PROFILE_HEAD_START_H_
#define DPIPE_CORE_PROFILE_HEAD_START_H_

#include <algorithm>

#include "core/base/time.h"
#include "core/tensor/device.h"

namespace dpipe {

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

#endif  // DPIPE_CORE_PROFILE_HEAD_START_H_
