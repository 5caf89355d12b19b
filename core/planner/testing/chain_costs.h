// StageCosts from plain vectors by layer, for tests.
#ifndef DPIPE_CORE_PLANNER_TESTING_CHAIN_COSTS_H_
#define DPIPE_CORE_PLANNER_TESTING_CHAIN_COSTS_H_

#include <cstdint>
#include <vector>

#include "core/base/philox.h"
#include "core/planner/partition/stage_costs.h"

namespace dpipe {

// A rank of a seat of r ranks takes 1/r of a stage's times, rounded up, multiplied by the
// `slowness` of the seat's slowest rank. Recomputation adds the forward time. A device's memory is
// the sum of its layers' `memory` times the micro-batches that its stages stash: `stash[k]` for
// stage k, or 1 with recomputation.
struct ChainCosts : StageCosts {
  std::vector<Nanos> forward, backward;
  std::vector<Nanos> link;  // [i]: over the cut before layer i, between different seats
  std::vector<Nanos> sync;
  std::vector<int64_t> memory;
  std::vector<int> stash;       // by stage; empty: 1
  std::vector<int> slowness;    // by rank; empty: 1
  std::vector<int64_t> limits;  // by rank; empty: `limit`
  int64_t limit = 0;
  int max_replicas = 64;
  std::vector<ChainValue> skips;

  int num_layers() const override { return static_cast<int>(forward.size()); }
  bool CanReplicate(int replicas) const override {
    return replicas >= 1 && replicas <= max_replicas;
  }
  Nanos ComputeNs(const DeviceSeat& seat, LayerRange layers) const override;
  Nanos BackwardNs(const DeviceSeat& seat, LayerRange layers) const override;
  Nanos LinkNs(int cut, const DeviceSeat& from, const DeviceSeat& to) const override;
  Nanos SyncNs(const std::vector<DeviceSeat>& copies, LayerRange layers) const override;
  int64_t MemoryBytes(int device, const DeviceSeat& seat,
                      const std::vector<HeldStage>& held) const override;
  int64_t MemoryLimitBytes(const DeviceSeat& seat) const override;
  int64_t ParameterBytes(LayerRange layers) const override;
  const std::vector<ChainValue>& values() const override { return skips; }
  // One nanosecond per byte.
  Nanos TransferNs(int64_t forward_bytes, int64_t gradient_bytes, const DeviceSeat& from,
                   const DeviceSeat& to) const override;

 private:
  Nanos OnSeat(const DeviceSeat& seat, Nanos time) const;
};

// Returns costs with forward times only.
ChainCosts PlainChain(const std::vector<Nanos>& compute);

struct RandomChainOptions {
  int min_layers = 1;
  int max_layers = 10;
  int num_stages = 1;  // stage s stashes num_stages - s micro-batches
  int num_ranks = 0;   // > 0: ranks differ in slowness and memory
  bool limited = false;
};
ChainCosts RandomChain(RandomStream& random, const RandomChainOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_TESTING_CHAIN_COSTS_H_
