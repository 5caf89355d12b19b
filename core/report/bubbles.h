// Where each device's time went, and why it idled.
#ifndef DPIPE_CORE_REPORT_BUBBLES_H_
#define DPIPE_CORE_REPORT_BUBBLES_H_

#include <array>
#include <vector>

#include "core/base/time.h"
#include "core/report/trace_index.h"

namespace dpipe::report {

// An interval in which a device computes nothing, of one reason.
struct Bubble {
  int rank = 0;
  int step = 0;
  Nanos start_ns = 0;
  Nanos end_ns = 0;
  BubbleReason reason = BUBBLE_REASON_UNSPECIFIED;
};

// All idle compute time within `window`, by rank, then time. Idle time is what no busy instruction
// of the device covers (IsBusy). Its reason follows from the events around it:
//   GRADIENT_SYNC  a gradient reduction of the device runs meanwhile;
//   OPTIMIZER      every device has finished its passes, and the step is not over;
//   WARM_UP        before the device's first backward pass, or its last forward if that comes
//                  first;
//   STEADY         after that, until its last forward pass;
//   COOL_DOWN      the rest.
// An interval to which several apply in turn is split. O(events log events).
std::vector<Bubble> FindBubbles(const TraceIndex& index, StepWindow window);

// One device's time per step, averaged over a window.
struct DeviceTime {
  double step_ns = 0;
  double forward_ns = 0;
  double backward_ns = 0;  // with input and weight gradients
  double recompute_ns = 0;
  double frozen_ns = 0;
  double load_ns = 0;
  double optimizer_ns = 0;
  std::array<double, BubbleReason_ARRAYSIZE> idle_ns{};  // by reason

  double BusyNs() const {
    return forward_ns + backward_ns + recompute_ns + frozen_ns + load_ns + optimizer_ns;
  }
  double IdleNs() const;
};

std::vector<DeviceTime> DeviceTimes(const TraceIndex& index, StepWindow window);

// 1 - busy / (devices × time) over `window`.
double BubbleRatio(const std::vector<DeviceTime>& devices);

// "warm-up", "steady", "cool-down", "gradient sync", "optimizer".
const char* BubbleReasonName(BubbleReason reason);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_BUBBLES_H_
