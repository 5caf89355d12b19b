#include "core/planner/testing/chain_costs.h"

#include <algorithm>

namespace dpipe {
namespace {

template <typename T>
int64_t Sum(const std::vector<T>& v, LayerRange layers) {
  int64_t sum = 0;
  for (int l = layers.begin; l < layers.end; ++l) sum += v[l];
  return sum;
}

}  // namespace

Nanos ChainCosts::OnSeat(const DeviceSeat& seat, Nanos time) const {
  int slowest = 1;
  for (int i = 0; i < seat.replicas && !slowness.empty(); ++i) {
    slowest = std::max(slowest, slowness[seat.first_rank + i]);
  }
  return (time * slowest + seat.replicas - 1) / seat.replicas;
}

Nanos ChainCosts::ComputeNs(const DeviceSeat& seat, LayerRange layers) const {
  const Nanos forward_ns = Sum(forward, layers) * (seat.recompute ? 2 : 1);
  return OnSeat(seat, forward_ns + Sum(backward, layers));
}

Nanos ChainCosts::BackwardNs(const DeviceSeat& seat, LayerRange layers) const {
  return OnSeat(seat, Sum(backward, layers));
}

Nanos ChainCosts::LinkNs(int cut, const DeviceSeat& from, const DeviceSeat& to) const {
  if (from.first_rank == to.first_rank) return 0;
  const int fewest = std::min(from.replicas, to.replicas);
  return (link[cut] + fewest - 1) / fewest;
}

Nanos ChainCosts::SyncNs(const std::vector<DeviceSeat>& copies, LayerRange layers) const {
  int ranks = 0;
  for (const DeviceSeat& seat : copies) ranks += seat.replicas;
  return Sum(sync, layers) * ranks;
}

int64_t ChainCosts::MemoryBytes(int, const DeviceSeat& seat,
                                const std::vector<HeldStage>& held) const {
  int64_t bytes = 0;
  for (const HeldStage& stage : held) {
    const int count = stash.empty() || seat.recompute ? 1 : stash[stage.stage];
    bytes += Sum(memory, stage.layers) * count;
  }
  return bytes;
}

int64_t ChainCosts::MemoryLimitBytes(const DeviceSeat& seat) const {
  int64_t least = limit;
  for (int i = 0; i < seat.replicas && !limits.empty(); ++i) {
    const int64_t of_rank = limits[seat.first_rank + i];
    least = least == 0 ? of_rank : std::min(least, of_rank);
  }
  return least;
}

int64_t ChainCosts::ParameterBytes(LayerRange layers) const { return Sum(memory, layers); }

Nanos ChainCosts::TransferNs(int64_t forward_bytes, int64_t gradient_bytes, const DeviceSeat& from,
                             const DeviceSeat& to) const {
  return from.first_rank == to.first_rank ? 0 : forward_bytes + gradient_bytes;
}

ChainCosts PlainChain(const std::vector<Nanos>& compute) {
  ChainCosts costs;
  costs.forward = compute;
  costs.backward.assign(compute.size(), 0);
  costs.link.assign(compute.size(), 0);
  costs.sync.assign(compute.size(), 0);
  costs.memory.assign(compute.size(), 0);
  return costs;
}

ChainCosts RandomChain(RandomStream& random, const RandomChainOptions& options) {
  ChainCosts costs;
  const int num_layers =
      options.min_layers + random.NextBelow(options.max_layers - options.min_layers + 1);
  for (int l = 0; l < num_layers; ++l) {
    costs.forward.push_back(random.NextBelow(12));
    costs.backward.push_back(random.NextBelow(20));
    costs.link.push_back(random.NextBelow(30));
    costs.sync.push_back(random.NextBelow(120));
    costs.memory.push_back(random.NextBelow(10));
  }
  for (int s = 0; s < options.num_stages; ++s) costs.stash.push_back(options.num_stages - s);
  if (options.limited) costs.limit = 20 + random.NextBelow(60);
  for (int r = 0; r < options.num_ranks; ++r) {
    costs.slowness.push_back(1 + random.NextBelow(3));
    if (options.limited) costs.limits.push_back(20 + random.NextBelow(100));
  }
  return costs;
}

}  // namespace dpipe
