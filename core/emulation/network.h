// When the messages and collectives of an emulated cluster start and end.
//
// The rules are the simulator's [algorithms.md §6], applied to what ranks do when they do it: a
// transfer holds its sender's send engine, its receiver's receive engine and, between nodes, the
// two network interfaces for latency + bytes / bandwidth, each of which serves whoever comes first;
// a collective holds its members' collective streams and, between nodes, their interfaces in both
// directions.
#ifndef DPIPE_CORE_EMULATION_NETWORK_H_
#define DPIPE_CORE_EMULATION_NETWORK_H_

#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"

namespace dpipe {

struct TimeSpan {
  Nanos start_ns = 0;
  Nanos end_ns = 0;
};

enum class CollectiveKind { kAllReduce, kReduceScatter, kAllGather };

// Of one run; not thread-safe.
class EmulatedNetwork {
 public:
  // `cost` outlives this.
  explicit EmulatedNetwork(const CostModel& cost);

  // A message of which both sides are there at `ready_ns`.
  TimeSpan Transfer(int from, int to, int64_t bytes, Nanos ready_ns);
  // A collective over `ranks`, the last of whom comes at `ready_ns`.
  TimeSpan Collective(CollectiveKind kind, const std::vector<int>& ranks, int64_t bytes,
                      Nanos ready_ns);
  // The sum of one number over all ranks.
  Nanos Barrier() const { return cost_.GlobalNorm(); }

 private:
  struct Engines {
    Nanos send_free = 0, recv_free = 0, collective_free = 0;
  };
  struct Interface {
    Nanos out_free = 0, in_free = 0;
  };
  Nanos CollectiveTime(CollectiveKind kind, const std::vector<int>& ranks, int64_t bytes) const;

  const CostModel& cost_;
  std::vector<Engines> ranks_;
  std::vector<Interface> interfaces_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_NETWORK_H_
