// Lets the host enqueue a pass before the device runs it, as it does in training.
//
// Many kernels of a small layer take the host longer to enqueue than the device to run (on an H200
// a text encoder's pass 36 ms and 8 ms). Timed by itself such a layer takes the host's time. In
// training its kernels are enqueued while the device is busy with earlier work, and it takes the
// device's.
#ifndef DPIPE_CORE_PROFILE_HEAD_START_H_
#define DPIPE_CORE_PROFILE_HEAD_START_H_

#include <algorithm>

#include "core/base/time.h"
#include "core/tensor/device.h"

namespace dpipe {

// How long the device waits before a pass: as long as the host took for the last one.
class HeadStart {
 public:
  // By what a pass of the component is bound if the host needs longer than the device for all of
  // it: a frozen component's runs behind longer work of others; a backbone's own passes follow each
  // other, so that the host never gets ahead, and none is given.
  enum class Of { kFrozen, kBackbone };

  explicit HeadStart(Of of) : of_(of) {}

  // Of the pass that comes next.
  Nanos next_ns() const { return next_ns_; }

  // What the host took to enqueue a pass, and the device to run it.
  void Took(Nanos host_ns, Nanos device_ns) {
    is_host_bound_ = is_host_bound_ || (was_given() && host_ns > device_ns);
    next_ns_ = of_ == Of::kBackbone && is_host_bound_ ? 0 : std::min(host_ns, kMaxNs);
  }

 private:
  // A first pass makes plans and compiles, for seconds.
  static constexpr Nanos kMaxNs = 100 * kNanosPerMilli;

  // Without one the device's time has the host's in it.
  bool was_given() const { return next_ns_ > 0; }

  const Of of_;
  Nanos next_ns_ = 0;
  bool is_host_bound_ = false;
};

// Enqueues the wait on a GPU; devices that run work at once have no use for one.
void EnqueueWait(Device* device, Nanos duration_ns);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_HEAD_START_H_
