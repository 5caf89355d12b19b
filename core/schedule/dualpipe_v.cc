// DualPipeV (DeepSeek-AI and Sea AI Lab, 2025): DualPipe cut in half. One chain in a V instead of
// two whole copies of the weights in opposite directions; the order of device r is published as
// eight runs (below, in terms of how many devices come after r). Backward passes are split into
// input and weight gradients where that lets the neighbour go on sooner, in the third, the end of
// the sixth and the seventh run, and are joint elsewhere.
//
// It needs m >= 2p micro-batches. With F = I = W the makespan is 6m + p - 1, of which each device
// works 6m: the p - 1 are the way to the last device. A device keeps 2p + 1 pairs. (The published
// figures count a forward and a backward pass that overlap each other as one; here they are one
// after the other.) Costs do not change the order.
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/schedule/schedule_choice.h"
#include "core/schedule/schedule_traits.h"
#include "core/schedule/v_schedule.h"

namespace dpipe {
namespace {

constexpr char kName[] = "dualpipe-v";

// The order of one device; half 0 is its stage before the turn of the V, half 1 the one after.
class DeviceOrder {
 public:
  DeviceOrder(int device, int num_devices) : stages_{device, 2 * num_devices - 1 - device} {}

  void Forward(int half) { slots_.push_back({Pass::kForward, forward_[half]++, stages_[half]}); }
  void Backward(int half) { slots_.push_back({Pass::kBackward, backward_[half]++, stages_[half]}); }
  void InputGrad(int half) {
    const Slot slot = {Pass::kInputGrad, backward_[half]++, stages_[half]};
    slots_.push_back(slot);
    to_weigh_.push_back({Pass::kWeightGrad, slot.micro_batch, slot.stage});
  }
  // Of the input gradient that has waited longest.
  void WeightGrad() {
    slots_.push_back(to_weigh_.front());
    to_weigh_.pop_front();
  }
  std::vector<Slot> Take() { return std::move(slots_); }

 private:
  int stages_[2];
  int forward_[2] = {0, 0}, backward_[2] = {0, 0};
  std::deque<Slot> to_weigh_;
  std::vector<Slot> slots_;
};

std::vector<Slot> SlotsOf(int r, int p, int m) {
  DeviceOrder order(r, p);
  const int after = p - 1 - r;
  const auto repeat = [](int count, const auto& body) {
    for (int i = 0; i < count; ++i) body(i);
  };
  repeat(2 * after, [&](int) { order.Forward(0); });
  repeat(r + 1, [&](int) {
    order.Forward(0);
    order.Forward(1);
  });
  repeat(after, [&](int) {
    order.InputGrad(1);
    order.WeightGrad();
    order.Forward(1);
  });
  repeat(m - 2 * p + r + 1, [&](int) {
    order.Forward(0);
    order.Backward(1);
    order.Forward(1);
    order.Backward(0);
  });
  repeat(after, [&](int) {
    order.Backward(1);
    order.Forward(1);
    order.Backward(0);
  });
  // The second half of these r + 1 pairs is split; with an odd number of pairs so is the later
  // pass of the middle one.
  repeat(2 * (r + 1), [&](int i) {
    const int half = 1 - i % 2;
    if (i < r + 1) {
      order.Backward(half);
    } else {
      order.InputGrad(half);
    }
  });
  repeat(after, [&](int) {
    order.WeightGrad();
    order.InputGrad(0);
  });
  repeat(r + 1, [&](int) { order.WeightGrad(); });
  return order.Take();
}

absl::StatusOr<Schedule> DualPipeV(const ScheduleRequest& request) {
  DPIPE_RETURN_IF_ERROR(CheckVRequest(kName, request));
  const int p = request.num_devices, m = request.num_micro_batches;
  DPIPE_ASSIGN_OR_RETURN(const ScheduleTraits traits, TraitsOf(kName));
  DPIPE_RETURN_IF_ERROR(CheckRequest(kName, traits, request));
  std::vector<std::vector<Slot>> slots;
  for (int r = 0; r < p; ++r) slots.push_back(SlotsOf(r, p, m));
  auto schedule = Schedule::Create(kName, {VChain(p, m)}, std::move(slots));
  DPIPE_RETURN_IF_ERROR(schedule.status());
  DPIPE_RETURN_IF_ERROR(CheckPeakLimit(*schedule, request.peak_limit));
  return schedule;
}

REGISTER_SCHEDULE_GENERATOR("dualpipe-v", DualPipeV);

}  // namespace
}  // namespace dpipe
