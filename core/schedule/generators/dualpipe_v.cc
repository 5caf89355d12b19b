#include "core/schedule/generators/dualpipe_v.h"

#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/schedule/builders/v_schedule.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

constexpr char kName[] = "dualpipe-v";

// Builds the order of one device. Half 0 is its stage before the turn of the V, half 1 the one
// after.
class DeviceOrder {
 public:
  DeviceOrder(int device, int num_devices) : stages_{device, 2 * num_devices - 1 - device} {}

  void Forward(int half) { slots_.push_back({Pass::kForward, forward_[half]++, stages_[half]}); }
  void Backward(int half) { slots_.push_back({Pass::kBackward, backward_[half]++, stages_[half]}); }
  void InputGrad(int half) {
    const Slot slot = {Pass::kInputGrad, backward_[half]++, stages_[half]};
    slots_.push_back(slot);
    pending_weight_grads_.push_back({Pass::kWeightGrad, slot.micro_batch, slot.stage});
  }
  // Appends the weight gradient that has been pending longest.
  void WeightGrad() {
    slots_.push_back(pending_weight_grads_.front());
    pending_weight_grads_.pop_front();
  }
  std::vector<Slot> Take() { return std::move(slots_); }

 private:
  int stages_[2];
  int forward_[2] = {0, 0}, backward_[2] = {0, 0};
  std::deque<Slot> pending_weight_grads_;
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
  // The second half of these 2(r + 1) backward passes is split into input and weight gradients.
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
  return MakeDualPipeV(kName, request.num_devices, request.num_micro_batches);
}

REGISTER_SCHEDULE_GENERATOR("dualpipe-v", DualPipeV);

}  // namespace

absl::StatusOr<Schedule> MakeDualPipeV(const std::string& name, int num_devices,
                                       int num_micro_batches) {
  if (num_micro_batches < 2 * num_devices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", name, ": ", num_micro_batches,
        " micro-batches; it needs at least 2 for each of the ", num_devices, " devices"));
  }
  std::vector<std::vector<Slot>> slots;
  for (int r = 0; r < num_devices; ++r) slots.push_back(SlotsOf(r, num_devices, num_micro_batches));
  return Schedule::Create(name, {VChain(num_devices, num_micro_batches)}, std::move(slots));
}

}  // namespace dpipe
