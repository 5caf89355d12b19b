#include "core/schedule/builders/weight_filling.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

constexpr Nanos kNotDone = -1;

struct Device {
  size_t next = 0;                      // the next slot of the given order
  std::deque<Slot> ready_weight_grads;  // weight gradients that are ready
  int kept = 0;                         // pairs of (stage, micro-batch)
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
        stages_.push_back(std::move(stage));
      }
    }
  }

  // Returns the slots by device; incomplete if the order gets stuck.
  std::vector<std::vector<Slot>> Run() {
    for (int d = 0; d < static_cast<int>(devices_.size()); ++d) Wake(0, d);
    while (!wakes_.empty()) {
      const auto [now, weights, d] = wakes_.top();
      wakes_.pop();
      if (devices_[d].free_ns <= now) Step(now, d, weights);
    }
    std::vector<std::vector<Slot>> slots;
    for (Device& device : devices_) slots.push_back(std::move(device.slots));
    return slots;
  }

 private:
  struct Stage {
    int previous_device = -1, next_device = -1;
    bool is_kept = true;                   // true: a pair is kept until its weight gradient
    std::vector<Nanos> forward, gradient;  // by micro-batch: ends
  };

  PassCosts CostsOf(int stage) const {
    return options_.costs.empty() ? PassCosts{1, 1, 1} : options_.costs[stage];
  }

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
    if (device.ready_weight_grads.empty()) return;
    if (!weights) return wakes_.push({now, true, d});
    const Slot weight = device.ready_weight_grads.front();
    const double wait = static_cast<double>(ready - now);
    const Nanos cost = CostsOf(weight.stage).weight_grad;
    if (ready != kNotDone && wait < options_.patience * static_cast<double>(cost)) return;
    device.ready_weight_grads.pop_front();
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
    const PassCosts costs = CostsOf(slot.stage);
    const Nanos end = now + (forward ? costs.forward : costs.input_grad);
    (forward ? stage.forward : stage.gradient)[slot.micro_batch] = end;
    if (forward) {
      device.kept += stage.is_kept;
    } else {
      device.ready_weight_grads.push_back({Pass::kWeightGrad, slot.micro_batch, slot.stage});
    }
    const int reader = forward ? stage.next_device : stage.previous_device;
    if (reader >= 0) Wake(end, reader);
    Occupy(d, end);
  }

  void Occupy(int d, Nanos end) {
    devices_[d].free_ns = end;
    Wake(end, d);
  }

  void Wake(Nanos when, int d) { wakes_.push({when, false, d}); }

  const std::vector<std::vector<Slot>>& order_;
  const WeightFillingOptions& options_;
  std::vector<Stage> stages_;
  std::vector<Device> devices_;
  // (time, true if a weight gradient may start, device).
  using Event = std::tuple<Nanos, bool, int>;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> wakes_;
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
