#include "core/planner/testing/random_fill.h"

#include <algorithm>
#include <utility>

namespace dpipe {
namespace {

int Between(RandomStream& random, int low, int high) {
  return low + static_cast<int>(random.NextBelow(static_cast<uint32_t>(high - low + 1)));
}

Chain RandomChain(RandomStream& random, const RandomFillOptions& options, int num_units) {
  Chain chain;
  chain.total_ns.assign(num_units + 1, 0);
  const int num_steps = Between(random, options.min_steps, options.max_steps);
  for (int s = 0; s < num_steps; ++s) {
    chain.steps.push_back({0, s, s == 0 || random.NextBelow(4) == 0});
    const Nanos per_unit = Between(random, 1, static_cast<int>(options.max_step_ns));
    const Nanos fixed = random.NextBelow(static_cast<uint32_t>(per_unit + 1));
    std::vector<Nanos> ns = {0};
    for (int u = 1; u <= num_units; ++u) ns.push_back(fixed + u * per_unit);
    for (int u = 1; u <= num_units; ++u) chain.total_ns[u] += ns[u];
    chain.step_ns.push_back(std::move(ns));
  }
  return chain;
}

}  // namespace

RandomFillInstance MakeRandomFill(RandomStream& random, const RandomFillOptions& options) {
  RandomFillInstance instance;
  FrozenWork& work = instance.work;
  work.num_units = Between(random, options.min_units, options.max_units);
  work.instruction_overhead_ns = Between(random, 0, static_cast<int>(options.max_overhead_ns));
  const int num_chains = Between(random, 1, options.max_chains);
  Nanos total = 0;
  for (int c = 0; c < num_chains; ++c) {
    work.chains.push_back(RandomChain(random, options, work.num_units));
    total += work.chains.back().total_ns.back();
  }
  instance.devices.resize(Between(random, 2, options.max_devices));
  int num_gaps = 0;
  for (DeviceGaps& device : instance.devices) {
    device.gaps.resize(Between(random, options.min_gaps, options.max_gaps));
    num_gaps += static_cast<int>(device.gaps.size());
  }
  // Mean gap: total x (0.3 .. 1.1) / number of gaps. Each gap is uniform in [0, 2 x mean].
  const Nanos mean = total * Between(random, 30, 110) / 100 / std::max(1, num_gaps);
  Nanos last_end = 0;
  for (DeviceGaps& device : instance.devices) {
    device.end_ns = Between(random, 0, static_cast<int>(mean));  // backbone work between the gaps
    for (Nanos& gap : device.gaps) {
      gap = random.NextBelow(static_cast<uint32_t>(2 * mean + 1));
      device.end_ns += gap;
    }
    last_end = std::max(last_end, device.end_ns);
  }
  for (DeviceGaps& device : instance.devices) device.optimizer_ns = last_end;
  return instance;
}

RandomFillInstance RandomFillNumber(int index) {
  RandomStream random(17, index, 0, RandomPurpose::kTest);
  return MakeRandomFill(random, {});
}

}  // namespace dpipe
