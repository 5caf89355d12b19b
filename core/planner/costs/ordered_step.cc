#include "core/planner/costs/ordered_step.h"

#include <algorithm>
#include <tuple>

namespace dpipe {

OrderedStep::OrderedStep(const Schedule& schedule)
    : devices_(schedule.num_devices()), last_weights_(schedule.num_stages()) {
  // With positive costs, start times increase along every dependency.
  const std::vector<PassCosts> unit(schedule.num_stages(), PassCosts{1, 1, 1});
  const std::vector<std::vector<Nanos>> starts = schedule.StartTimes(unit);
  std::vector<std::tuple<Nanos, int, int>> order;
  for (int d = 0; d < schedule.num_devices(); ++d) {
    for (size_t i = 0; i < starts[d].size(); ++i) {
      order.emplace_back(starts[d][i], d, static_cast<int>(i));
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<int> first_end;  // by stage
  int num_ends = 0;
  for (int s = 0; s < schedule.num_stages(); ++s) {
    device_of_.push_back(schedule.DeviceOf(s));
    first_end.push_back(num_ends);
    num_ends += 2 * schedule.chains()[schedule.ChainOf(s)].num_micro_batches;
  }
  arrivals_.resize(num_ends);
  const auto end_of = [&](int stage, bool forward, int micro_batch) {
    return first_end[stage] + 2 * micro_batch + (forward ? 0 : 1);
  };
  for (const auto& [start, device, i] : order) {
    const Slot& slot = schedule.slots(device)[i];
    OrderedPass pass;
    pass.pass = slot.pass;
    pass.stage = slot.stage;
    pass.device = device;
    const bool forward = slot.pass == Pass::kForward;
    if (forward || ComputesInputGrad(slot.pass)) {
      pass.end = end_of(slot.stage, forward, slot.micro_batch);
      const int from = forward ? schedule.Previous(slot.stage) : schedule.Next(slot.stage);
      if (from >= 0) pass.input = end_of(from, forward, slot.micro_batch);
      const int to = forward ? schedule.Next(slot.stage) : schedule.Previous(slot.stage);
      pass.is_sent = to >= 0 && schedule.DeviceOf(to) != device;
    }
    passes_.push_back(pass);
  }
}

Nanos OrderedStep::StepNs(const OrderedStageTimes& times) {
  std::fill(devices_.begin(), devices_.end(), DeviceState());
  std::fill(last_weights_.begin(), last_weights_.end(), 0);
  for (size_t s = 0; s < last_weights_.size(); ++s) {
    devices_[device_of_[s]].free_ns += times.optimizer_ns[s];
  }
  for (const OrderedPass& pass : passes_) {
    DeviceState& device = devices_[pass.device];
    if (pass.input != kNone) device.free_ns = std::max(device.free_ns, arrivals_[pass.input]);
    const PassCosts& costs = times.passes[pass.stage];
    const bool forward = pass.pass == Pass::kForward;
    if (forward) device.free_ns += costs.forward;
    if (ComputesInputGrad(pass.pass)) device.free_ns += costs.input_grad;
    if (ComputesWeightGrad(pass.pass)) {
      device.free_ns += costs.weight_grad;
      last_weights_[pass.stage] = device.free_ns;
    }
    if (pass.end == kNone) continue;
    arrivals_[pass.end] = device.free_ns;
    if (!pass.is_sent) continue;
    // A device sends one message at a time.
    device.sent_ns =
        std::max(device.free_ns, device.sent_ns) +
        (forward ? times.forward_delay_ns[pass.stage] : times.gradient_delay_ns[pass.stage]);
    arrivals_[pass.end] = device.sent_ns;
  }
  Nanos step = 0;
  for (const DeviceState& device : devices_) step = std::max(step, device.free_ns);
  for (size_t s = 0; s < last_weights_.size(); ++s) {
    step = std::max(step, last_weights_[s] + times.sync_ns[s]);
  }
  return step;
}

}  // namespace dpipe
