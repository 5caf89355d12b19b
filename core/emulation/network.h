// Start and end times of the messages and collectives of an emulated cluster.
//
// The rules are those of the simulator [algorithms.md §6], applied to the ranks' actions as they
// happen. A transfer occupies its sender's send engine, its receiver's receive engine and, between
// nodes, the two network interfaces for latency + bytes / bandwidth. Each of these serves requests
// in order of arrival. A collective occupies its members' collective streams and, between nodes,
// their interfaces in both directions.
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

// The network of one run; not thread-safe.
class EmulatedNetwork {
 public:
  // `cost` outlives this.
  explicit EmulatedNetwork(const CostModel& cost);

  // Adds a message, whose sides have both arrived at `ready_ns`.
  TimeSpan Transfer(int from, int to, int64_t bytes, Nanos ready_ns);
  // Adds a collective over `ranks`, the last of which arrives at `ready_ns`.
  TimeSpan Collective(CollectiveKind kind, const std::vector<int>& ranks, int64_t bytes,
                      Nanos ready_ns);
  // Returns the duration of summing one number over all ranks.
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
