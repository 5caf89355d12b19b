#include "core/cost/collectives.h"

#include <algorithm>
#include <cmath>

namespace dpipe {
namespace {

Nanos BytesTime(double bytes, const Link& link) {
  return static_cast<Nanos>(std::ceil(bytes / link.bandwidth_bytes_per_s() * kNanosPerSecond));
}

int Depth(int count) {
  int depth = 0;
  while ((1 << depth) < count) ++depth;
  return depth;
}

// (count - 1) steps of 1/count of the data.
Nanos RingTime(int count, double bytes, const Link& link) {
  return (count - 1) * link.latency_ns() + BytesTime(bytes * (count - 1) / count, link);
}

bool IsHierarchical(const CollectiveGroup& group) {
  return group.num_nodes > 1 && group.ranks_per_node > 1;
}

bool IsUneven(const CollectiveGroup& group) { return group.ranks_per_node == 0; }

// `laps`: 1 for a reduce-scatter or an all-gather, 2 for both.
Nanos LapsTime(const CollectiveGroup& group, int laps, int64_t bytes) {
  const double size = static_cast<double>(laps) * static_cast<double>(bytes);
  const int n = group.num_ranks;
  if (IsUneven(group)) {
    return laps * (n - 1) * group.slowest.latency_ns() +
           std::max(BytesTime(size * (n - 1) / n, group.within),
                    BytesTime(size * group.exchanged, group.between));
  }
  const Nanos time =
      laps * (n - 1) * group.slowest.latency_ns() + BytesTime(size * (n - 1) / n, group.slowest);
  if (!IsHierarchical(group)) return time;
  const Nanos latency = (laps - 1) * ((group.ranks_per_node - 1) * group.within.latency_ns() +
                                      (group.num_nodes - 1) * group.between.latency_ns());
  return std::min(time, latency + RingTime(group.ranks_per_node, size, group.within) +
                            RingTime(group.num_nodes, size / group.interfaces, group.between));
}

}  // namespace

int InterfaceOfRank(const ClusterSpec& cluster, int rank) {
  const int interfaces = std::max(1, cluster.interfaces_per_node());
  const int node = rank / cluster.devices_per_node();
  const int device = rank % cluster.devices_per_node();
  return node * interfaces + device / (cluster.devices_per_node() / interfaces);
}

CollectiveGroup GroupOfRanks(const ClusterSpec& cluster, std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  CollectiveGroup group;
  group.num_ranks = static_cast<int>(ranks.size());
  group.within = cluster.intra_node();
  group.between = cluster.inter_node();
  const double size = group.num_ranks;
  bool within = false, even = true;
  for (size_t begin = 0; begin < ranks.size();) {
    const int node = ranks[begin] / cluster.devices_per_node();
    int count = 0, interfaces = 0, last_interface = -1;
    for (; begin < ranks.size() && ranks[begin] / cluster.devices_per_node() == node; ++begin) {
      const int interface = InterfaceOfRank(cluster, ranks[begin]);
      interfaces += interface != last_interface;
      last_interface = interface;
      ++count;
    }
    within |= count > 1;  // a node that holds one of them only uses no link of its own
    even &= group.num_nodes == 0 || count == group.ranks_per_node;
    group.exchanged = std::max(group.exchanged, count * (size - count) / size / interfaces);
    group.ranks_per_node = count;
    group.interfaces = group.num_nodes == 0 ? interfaces : std::min(group.interfaces, interfaces);
    ++group.num_nodes;
  }
  if (!even) group.ranks_per_node = 0;
  const bool across = group.num_nodes > 1;
  group.slowest = across ? group.between : group.within;
  if (across && within) {
    group.slowest.set_latency_ns(std::max(group.within.latency_ns(), group.between.latency_ns()));
    group.slowest.set_bandwidth_bytes_per_s(
        std::min(group.within.bandwidth_bytes_per_s(), group.between.bandwidth_bytes_per_s()));
  }
  return group;
}

Nanos AllReduceTime(const CollectiveGroup& group, int64_t bytes) {
  if (group.num_ranks <= 1) return 0;
  if (IsUneven(group)) return LapsTime(group, 2, bytes);
  const Nanos tree = 2 * Depth(group.num_ranks) * group.slowest.latency_ns() +
                     BytesTime(2 * static_cast<double>(bytes), group.slowest);
  return std::min(tree, LapsTime(group, 2, bytes));
}

Nanos ReduceScatterTime(const CollectiveGroup& group, int64_t bytes) {
  return group.num_ranks <= 1 ? 0 : LapsTime(group, 1, bytes);
}

Nanos AllGatherTime(const CollectiveGroup& group, int64_t bytes) {
  return ReduceScatterTime(group, bytes);
}

Nanos BroadcastTime(const CollectiveGroup& group, int64_t bytes) {
  if (group.num_ranks <= 1) return 0;
  const Nanos once = BytesTime(static_cast<double>(bytes), group.slowest);
  return std::min((group.num_ranks - 1) * group.slowest.latency_ns() + once,
                  Depth(group.num_ranks) * (group.slowest.latency_ns() + once));
}

}  // namespace dpipe
