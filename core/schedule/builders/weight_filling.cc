#include "core/schedule/builders/weight_filling.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

constexpr Nanos kNotDone = -1;

struct Device {
  size_t next = 0;                 // the next slot of the given order
  std::vector<Slot> weight_grads;  // of all input gradients so far, in order
  size_t next_weight = 0;          // the first of them that has not started
  int kept = 0;                    // pairs of (stage, micro-batch)
  Nanos free_ns = 0;
  std::vector<Slot> slots;
};

class Filling {
 public:
  Filling(const std::vector<ScheduleChain>& chains, const std::vector<std::vector<Slot>>& order,
          const WeightFillingOptions& options)
      : order_(order), options_(options), devices_(order.size()) {
    for (const ScheduleChain& chain : chains) {
      const int count = static_cast<int>(chain.devices.size());
      for (int k = 0; k < count; ++k) {
        Stage stage;
        stage.previous_device = k > 0 ? chain.devices[k - 1] : -1;
        stage.next_device = k + 1 < count ? chain.devices[k + 1] : -1;
        stage.is_kept = k >= chain.num_forward_only;
        stage.forward.assign(chain.num_micro_batches, kNotDone);
        stage.gradient = stage.forward;
        if (!options.costs.empty()) stage.costs = options.costs[stages_.size()];
        stages_.push_back(std::move(stage));
      }
    }
  }

  // Returns the slots by device; incomplete if the order gets stuck.
  std::vector<std::vector<Slot>> Run() {
    for (int d = 0; d < static_cast<int>(devices_.size()); ++d) {
      devices_[d].slots.reserve(order_[d].size() * 3 / 2 + 1);
      Wake(0, d);
    }
    while (!wakes_.empty()) {
      const Wakening next = wakes_.top();
      wakes_.pop();
      const Nanos now = next.time >> 1;
      if (devices_[next.device].free_ns <= now) Step(now, next.device, (next.time & 1) != 0);
    }
    std::vector<std::vector<Slot>> slots;
    for (Device& device : devices_) slots.push_back(std::move(device.slots));
    return slots;
  }

 private:
  struct Stage {
    int previous_device = -1, next_device = -1;
    bool is_kept = true;  // true: a pair is kept until its weight gradient
    PassCosts costs = {1, 1, 1};
    std::vector<Nanos> forward, gradient;  // by micro-batch: ends
  };

  // Returns when a slot's inputs are ready; kNotDone if that is unknown so far.
  Nanos ReadyAt(const Slot& slot) const {
    const Stage& stage = stages_[slot.stage];
    const int m = slot.micro_batch;
    if (slot.pass == Pass::kForward) {
      return stage.previous_device < 0 ? 0 : stages_[slot.stage - 1].forward[m];
    }
    const Nanos own = stage.forward[m];
    if (stage.next_device < 0 || own == kNotDone) return own;
    const Nanos incoming = stages_[slot.stage + 1].gradient[m];
    return incoming == kNotDone ? kNotDone : std::max(own, incoming);
  }

  // Starts the next slot, or else a weight gradient. `weights` is set in a second step at the same
  // time, after all other devices have started what they can.
  void Step(Nanos now, int d, bool weights) {
    Device& device = devices_[d];
    Nanos ready = kNotDone;
    if (device.next < order_[d].size()) {
      const Slot& slot = order_[d][device.next];
      const bool room = slot.pass != Pass::kForward || !stages_[slot.stage].is_kept ||
                        options_.device_limit == 0 || device.kept < options_.device_limit;
      if (room) ready = ReadyAt(slot);
      if (ready != kNotDone && ready <= now) return Start(now, d, slot);
    }
    if (device.next_weight == device.weight_grads.size()) return;
    if (!weights) return wakes_.push({2 * now + 1, d});
    const Slot weight = device.weight_grads[device.next_weight];
    const double wait = static_cast<double>(ready - now);
    const Nanos cost = stages_[weight.stage].costs.weight_grad;
    if (ready != kNotDone && wait < options_.patience * static_cast<double>(cost)) return;
    ++device.next_weight;
    --device.kept;
    device.slots.push_back(weight);
    Occupy(d, now + cost);
  }

  void Start(Nanos now, int d, const Slot& slot) {
    Device& device = devices_[d];
    ++device.next;
    device.slots.push_back(slot);
    Stage& stage = stages_[slot.stage];
    const bool forward = slot.pass == Pass::kForward;
    const Nanos end = now + (forward ? stage.costs.forward : stage.costs.input_grad);
    (forward ? stage.forward : stage.gradient)[slot.micro_batch] = end;
    if (forward) {
      device.kept += stage.is_kept;
    } else {
      device.weight_grads.push_back({Pass::kWeightGrad, slot.micro_batch, slot.stage});
    }
    const int reader = forward ? stage.next_device : stage.previous_device;
    // A device that is busy for longer wakes by itself.
    if (reader >= 0 && devices_[reader].free_ns <= end) Wake(end, reader);
    Occupy(d, end);
  }

  void Occupy(int d, Nanos end) {
    devices_[d].free_ns = end;
    Wake(end, d);
  }

  void Wake(Nanos when, int d) { wakes_.push({2 * when, d}); }

  const std::vector<std::vector<Slot>>& order_;
  const WeightFillingOptions& options_;
  std::vector<Stage> stages_;
  std::vector<Device> devices_;
  // A device's turn at a time, in the order of times and devices. Odd: a weight gradient may start.
  struct Wakening {
    Nanos time = 0;  // doubled
    int device = 0;

    friend bool operator>(const Wakening& a, const Wakening& b) {
      return a.time != b.time ? a.time > b.time : a.device > b.device;
    }
  };
  std::priority_queue<Wakening, std::vector<Wakening>, std::greater<Wakening>> wakes_;
};

}  // namespace

absl::StatusOr<Schedule> FillWeightGradients(const std::string& name,
                                             const std::vector<ScheduleChain>& chains,
                                             const std::vector<std::vector<Slot>>& order,
                                             const WeightFillingOptions& options) {
  size_t num_stages = 0;
  for (const ScheduleChain& chain : chains) num_stages += chain.devices.size();
  if (!options.costs.empty() && options.costs.size() != num_stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", name, ": costs of ", options.costs.size(), " stages; there are ", num_stages));
  }
  std::vector<std::vector<Slot>> slots = Filling(chains, order, options).Run();
  for (size_t d = 0; d < order.size(); ++d) {
    size_t expected = order[d].size();
    for (const Slot& slot : order[d]) expected += slot.pass == Pass::kInputGrad;
    if (slots[d].size() == expected) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule ", name, ": device ", d, " gets stuck after ", slots[d].size(), " of ", expected,
        " slots with at most ", options.device_limit, " pairs of stage and micro-batch kept"));
  }
  return Schedule::Create(name, chains, std::move(slots));
}

}  // namespace dpipe
