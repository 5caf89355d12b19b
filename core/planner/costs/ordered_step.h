// Estimates a step for a given order of the passes: the longest path through the passes of all
// devices, messages (a device sends one at a time), gradient syncs and optimizer steps. Fast enough
// to judge thousands of cuts. Frozen work, contention and shared interfaces are left to simulation.
#ifndef DPIPE_CORE_PLANNER_COSTS_ORDERED_STEP_H_
#define DPIPE_CORE_PLANNER_COSTS_ORDERED_STEP_H_

#include <vector>

#include "core/base/time.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Times of the stages of one cut, by stage of the schedule.
struct OrderedStageTimes {
  std::vector<PassCosts> passes;
  // A message to the next stage, and a gradient to the previous one.
  std::vector<Nanos> forward_delay_ns, gradient_delay_ns;
  std::vector<Nanos> sync_ns;       // after its last weight gradient
  std::vector<Nanos> optimizer_ns;  // before its device's first pass
};

class OrderedStep {
 public:
  explicit OrderedStep(const Schedule& schedule);

  // Returns the estimated step. O(slots).
  Nanos StepNs(const OrderedStageTimes& times);
  int num_slots() const { return static_cast<int>(passes_.size()); }

 private:
  static constexpr int kNone = -1;

  // `input` and `end` are indices into arrivals_: forward passes and gradients have one entry each.
  struct OrderedPass {
    Pass pass = Pass::kForward;
    int stage = 0;
    int device = 0;
    int input = kNone;     // the output of a neighbouring stage that it reads
    int end = kNone;       // its own output
    bool is_sent = false;  // to another device
  };
  struct DeviceState {
    Nanos free_ns = 0;
    Nanos sent_ns = 0;  // when the last message is sent
  };

  std::vector<OrderedPass> passes_;  // each after the passes that it waits for
  std::vector<int> device_of_;       // by stage
  std::vector<Nanos> arrivals_;      // when outputs arrive at their readers
  std::vector<DeviceState> devices_;
  std::vector<Nanos> last_weights_;  // by stage
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_COSTS_ORDERED_STEP_H_
