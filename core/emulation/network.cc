#include "core/emulation/network.h"

#include <algorithm>

namespace dpipe {

EmulatedNetwork::EmulatedNetwork(const CostModel& cost)
    : cost_(cost), ranks_(cost.num_devices()), interfaces_(cost.num_interfaces()) {}

TimeSpan EmulatedNetwork::Transfer(int from, int to, int64_t bytes, Nanos ready_ns) {
  Engines& sender = ranks_[from];
  Engines& receiver = ranks_[to];
  const bool between_nodes = cost_.NodeOf(from) != cost_.NodeOf(to);
  Interface& out = interfaces_[cost_.InterfaceOf(from)];
  Interface& in = interfaces_[cost_.InterfaceOf(to)];
  TimeSpan span;
  span.start_ns = std::max({ready_ns, sender.send_free, receiver.recv_free});
  if (between_nodes) span.start_ns = std::max({span.start_ns, out.out_free, in.in_free});
  span.end_ns = span.start_ns + cost_.Transfer(from, to, bytes);
  sender.send_free = receiver.recv_free = span.end_ns;
  if (between_nodes) out.out_free = in.in_free = span.end_ns;
  return span;
}

Nanos EmulatedNetwork::CollectiveTime(CollectiveKind kind, const std::vector<int>& ranks,
                                      int64_t bytes) const {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return cost_.AllReduce(ranks, bytes);
    case CollectiveKind::kReduceScatter:
      return cost_.ReduceScatter(ranks, bytes);
    case CollectiveKind::kAllGather:
      return cost_.AllGather(ranks, bytes);
  }
  return 0;
}

TimeSpan EmulatedNetwork::Collective(CollectiveKind kind, const std::vector<int>& ranks,
                                     int64_t bytes, Nanos ready_ns) {
  const Nanos duration = CollectiveTime(kind, ranks, bytes);
  const bool between_nodes = cost_.SpansNodes(ranks);
  TimeSpan span{ready_ns, 0};
  for (int rank : ranks) {
    span.start_ns = std::max(span.start_ns, ranks_[rank].collective_free);
    if (!between_nodes) continue;
    const Interface& interface = interfaces_[cost_.InterfaceOf(rank)];
    span.start_ns = std::max({span.start_ns, interface.out_free, interface.in_free});
  }
  span.end_ns = span.start_ns + duration;
  for (int rank : ranks) {
    ranks_[rank].collective_free = span.end_ns;
    if (between_nodes) interfaces_[cost_.InterfaceOf(rank)] = {span.end_ns, span.end_ns};
  }
  return span;
}

}  // namespace dpipe
