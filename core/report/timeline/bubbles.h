// Breakdown of each device's time, and the reasons of its idle time.
#ifndef DPIPE_CORE_REPORT_TIMELINE_BUBBLES_H_
#define DPIPE_CORE_REPORT_TIMELINE_BUBBLES_H_

#include <array>
#include <vector>

#include "core/base/time.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {

// An idle interval of a device with a single reason.
struct Bubble {
  int rank = 0;
  int step = 0;
  Nanos start_ns = 0;
  Nanos end_ns = 0;
  BubbleReason reason = BUBBLE_REASON_UNSPECIFIED;
};

// Returns all idle compute time within `window`, by rank, then time. A device is idle while none of
// its busy instructions runs (IsBusy). The first reason that applies is taken:
//   GRADIENT_SYNC  a gradient reduction of the device is running;
//   OPTIMIZER      the device gathers parameters, or all devices have finished the step's passes;
//   WARM_UP        the device has no passes, or its first backward pass has not begun and its last
//                  forward pass has not ended;
//   STEADY         the device's last forward pass has not ended;
//   COOL_DOWN      otherwise.
// An interval with several reasons is split. O(events log events).
std::vector<Bubble> FindBubbles(const TraceIndex& index, StepWindow window);

// One device's time per step, averaged over a window.
struct DeviceTime {
  double step_ns = 0;
  double forward_ns = 0;
  double backward_ns = 0;  // includes input and weight gradients
  double recompute_ns = 0;
  double frozen_ns = 0;       // for this step
  double next_frozen_ns = 0;  // for the next step
  double load_ns = 0;
  double optimizer_ns = 0;
  std::array<double, BubbleReason_ARRAYSIZE> idle_ns{};  // by reason

  double BusyNs() const {
    return forward_ns + backward_ns + recompute_ns + frozen_ns + next_frozen_ns + load_ns +
           optimizer_ns;
  }
  double IdleNs() const;
};

std::vector<DeviceTime> DeviceTimes(const TraceIndex& index, StepWindow window);

// Returns 1 - busy / (devices × time) over the devices' window.
double BubbleRatio(const std::vector<DeviceTime>& devices);

// Returns "warm-up", "steady", "cool-down", "gradient sync" or "optimizer".
const char* BubbleReasonName(BubbleReason reason);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_BUBBLES_H_
