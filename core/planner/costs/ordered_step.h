// About how long a step takes if the order of the passes is given: the longest path through the
// passes of all devices, messages (a device sends one at a time), gradient syncs
// and optimizer steps. Quick enough to judge thousands of cuts. Frozen work, contention and shared
// interfaces are left to simulation.
#ifndef DPIPE_CORE_PLANNER_COSTS_ORDERED_STEP_H_
#define DPIPE_CORE_PLANNER_COSTS_ORDERED_STEP_H_

#include <vector>

#include "core/base/time.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// What the stages of one cut take, by stage of the schedule.
struct OrderedStageTimes {
  std::vector<PassCosts> passes;
  // A message to the stage after it, and a gradient to the stage before it.
  std::vector<Nanos> forward_delay_ns, gradient_delay_ns;
  std::vector<Nanos> sync_ns;       // after its last weight gradient
  std::vector<Nanos> optimizer_ns;  // before its device's first pass
};

class OrderedStep {
 public:
  explicit OrderedStep(const Schedule& schedule);

  // O(slots).
  Nanos StepNs(const OrderedStageTimes& times);
  int num_slots() const { return static_cast<int>(passes_.size()); }

 private:
  static constexpr int kNone = -1;

  // Indices are of arrivals_: a forward pass and a gradient each have one.
  struct OrderedPass {
    Pass pass = Pass::kForward;
    int stage = 0;
    int device = 0;
    int input = kNone;     // the pass of the neighbour whose output it reads
    int end = kNone;       // its own
    bool is_sent = false;  // to another device
  };
  struct DeviceState {
    Nanos free_ns = 0;
    Nanos sent_ns = 0;  // the last message
  };

  std::vector<OrderedPass> passes_;  // each after those that it waits for
  std::vector<int> device_of_;       // by stage
  std::vector<Nanos> arrivals_;      // of outputs, at their readers
  std::vector<DeviceState> devices_;
  std::vector<Nanos> last_weights_;  // by stage
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_COSTS_ORDERED_STEP_H_
