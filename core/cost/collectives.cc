#include "core/cost/collectives.h"

#include <algorithm>
#include <cmath>

#include "core/base/reduction_chunks.h"
#include "core/cost/shared_links.h"

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

bool IsUneven(const CollectiveGroup& group) { return group.ranks_per_node == 0; }

// True if there are several nodes with several of the ranks on each.
bool IsChained(const CollectiveGroup& group) {
  return group.num_nodes > 1 && group.ranks_per_node > 1;
}

// `laps`: 1 for a reduce-scatter or an all-gather, 2 for both.
Nanos LapsTime(const CollectiveGroup& group, int laps, int64_t bytes) {
  const double size = static_cast<double>(laps) * static_cast<double>(bytes);
  const int n = group.num_ranks;
  if (IsUneven(group)) {
    return laps * (n - 1) * group.slowest.latency_ns() +
           std::max(BytesTime(size * (n - 1) / n, group.within),
                    BytesTime(size * group.exchanged, group.between));
  }
  return laps * (n - 1) * group.slowest.latency_ns() + BytesTime(size * (n - 1) / n, group.slowest);
}

// (count - 1) steps of 1/count of the data.
Nanos RingTime(int count, double bytes, const Link& link) {
  return (count - 1) * link.latency_ns() + BytesTime(bytes * (count - 1) / count, link);
}

// Time for a vector to pass through a chain of nodes: one step per chunk plus `fill` steps. An
// interface carries the vector `laps` times, plus `fill_laps` chunks.
Nanos ChainTime(const CollectiveGroup& group, int64_t bytes, int fill, double laps, int fill_laps) {
  const int64_t chunk = ReductionChunkBytes(group.num_nodes);
  const int64_t num_chunks = std::max<int64_t>(1, (bytes + chunk - 1) / chunk);
  const double carried =
      laps * static_cast<double>(bytes) + static_cast<double>(fill_laps * std::min(chunk, bytes));
  return (num_chunks + fill) * group.between.latency_ns() +
         BytesTime(carried / group.interfaces, group.between);
}

Nanos TreeTime(const CollectiveGroup& group, int64_t bytes) {
  return 2 * Depth(group.num_ranks) * group.slowest.latency_ns() +
         BytesTime(2 * static_cast<double>(bytes), group.slowest);
}

bool IsNcclOverNodes(const CollectiveGroup& group) {
  return group.collectives == ClusterSpec::NCCL && group.num_nodes > 1;
}

// Of data that streams over both kinds of link: `within` and `between` times the vector.
Nanos StreamTime(const CollectiveGroup& group, double within, double between, int64_t bytes) {
  const double size = static_cast<double>(bytes);
  const Nanos outside = BytesTime(between * size / group.interfaces, group.between);
  if (group.max_ranks_per_node == 1) return outside;
  return std::max(BytesTime(within * size, group.within), outside);
}

Nanos NcclLapTime(const CollectiveGroup& group, int laps, int64_t bytes) {
  const int n = group.num_ranks, k = group.num_nodes;
  const double share = laps * (n - 1.0) / n;
  return laps * ((n - k) * group.within.latency_ns() + (k - 1) * group.between.latency_ns()) +
         StreamTime(group, share, share, bytes);
}

Nanos NcclTreeTime(const CollectiveGroup& group, int64_t bytes) {
  const int k = group.num_nodes;
  return 2 * ((group.max_ranks_per_node - 1) * group.within.latency_ns() +
              Depth(k) * group.between.latency_ns()) +
         StreamTime(group, 2, k == 2 ? 1 : 2, bytes);
}

// Returns `time`, or longer if the laps' bytes need longer on a shared link.
Nanos OverSharedLinks(const CollectiveGroup& group, int laps, int64_t bytes, Nanos time) {
  const double shared = laps * static_cast<double>(bytes) * group.shared_ns_per_byte;
  return std::max(time, static_cast<Nanos>(std::ceil(shared)));
}

double SharedNsPerByte(const ClusterSpec& cluster, const std::vector<int>& ranks) {
  if (cluster.shared_links().empty()) return 0;
  const SharedLinks links(cluster);
  const double share = (ranks.size() - 1.0) / static_cast<double>(ranks.size());
  double slowest = 0;
  for (const SharedLinks::RingUse& use : links.OfRing(ranks)) {
    slowest = std::max(slowest, share * use.edges / links.bandwidth_bytes_per_s(use.link));
  }
  return slowest * kNanosPerSecond;
}

Nanos UnsharedAllReduceTime(const CollectiveGroup& group, int64_t bytes) {
  if (IsNcclOverNodes(group)) {
    return std::min(NcclTreeTime(group, bytes), NcclLapTime(group, 2, bytes));
  }
  if (IsUneven(group)) return LapsTime(group, 2, bytes);
  const int k = group.num_nodes;
  if (!IsChained(group)) return std::min(TreeTime(group, bytes), LapsTime(group, 2, bytes));
  const Nanos within = 2 * RingTime(group.ranks_per_node, bytes, group.within);
  const int fill = 2 * k - 3;
  if (k == 2) return within + ChainTime(group, bytes, fill, 1, 1);
  return within + ChainTime(group, bytes, fill, 2, 2 * (k - 2));
}

Nanos UnsharedReduceScatterTime(const CollectiveGroup& group, int64_t bytes) {
  if (IsNcclOverNodes(group)) return NcclLapTime(group, 1, bytes);
  if (!IsChained(group)) return LapsTime(group, 1, bytes);
  const int k = group.num_nodes;
  return RingTime(group.ranks_per_node, bytes, group.within) +
         ChainTime(group, bytes, k - 1, 2.0 * (k - 1) / k, k - 1);
}

Nanos UnsharedAllGatherTime(const CollectiveGroup& group, int64_t bytes) {
  if (IsNcclOverNodes(group)) return NcclLapTime(group, 1, bytes);
  if (!IsChained(group)) return LapsTime(group, 1, bytes);
  return RingTime(group.ranks_per_node, bytes, group.within) +
         RingTime(group.num_nodes, static_cast<double>(bytes) / group.interfaces, group.between);
}

// Returns the time over the devices' own links and the interfaces.
Nanos UnsharedTime(CollectiveKind kind, const CollectiveGroup& group, int64_t bytes) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return UnsharedAllReduceTime(group, bytes);
    case CollectiveKind::kReduceScatter:
      return UnsharedReduceScatterTime(group, bytes);
    case CollectiveKind::kAllGather:
      return UnsharedAllGatherTime(group, bytes);
  }
  return 0;
}

}  // namespace

CollectiveGroup GroupOfRanks(const ClusterSpec& cluster, std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  CollectiveGroup group;
  group.collectives = cluster.collectives();
  group.num_ranks = static_cast<int>(ranks.size());
  group.within = cluster.intra_node();
  group.between = cluster.inter_node();
  group.shared_ns_per_byte = SharedNsPerByte(cluster, ranks);
  const int per_interface = cluster.devices_per_node() / std::max(1, cluster.interfaces_per_node());
  const double size = group.num_ranks;
  bool within = false, even = true;
  for (size_t begin = 0; begin < ranks.size();) {
    const int node = ranks[begin] / cluster.devices_per_node();
    int count = 0, interfaces = 0, last_interface = -1;
    for (; begin < ranks.size() && ranks[begin] / cluster.devices_per_node() == node; ++begin) {
      const int interface = ranks[begin] / per_interface;
      interfaces += interface != last_interface;
      last_interface = interface;
      ++count;
    }
    within |= count > 1;  // a node with only one of the ranks uses no link of its own
    even &= group.num_nodes == 0 || count == group.ranks_per_node;
    group.exchanged = std::max(group.exchanged, count * (size - count) / size / interfaces);
    group.ranks_per_node = count;
    group.max_ranks_per_node = std::max(group.max_ranks_per_node, count);
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
  return CollectiveTime(CollectiveKind::kAllReduce, group, bytes);
}

Nanos ReduceScatterTime(const CollectiveGroup& group, int64_t bytes) {
  return CollectiveTime(CollectiveKind::kReduceScatter, group, bytes);
}

Nanos AllGatherTime(const CollectiveGroup& group, int64_t bytes) {
  return CollectiveTime(CollectiveKind::kAllGather, group, bytes);
}

Nanos CollectiveTime(CollectiveKind kind, const CollectiveGroup& group, int64_t bytes) {
  if (group.num_ranks <= 1) return 0;
  return OverSharedLinks(group, LapsOf(kind), bytes, UnsharedTime(kind, group, bytes));
}

int LapsOf(CollectiveKind kind) { return kind == CollectiveKind::kAllReduce ? 2 : 1; }

Nanos NumberSumTime(const CollectiveGroup& group) {
  if (!IsChained(group)) return AllReduceTime(group, sizeof(double));
  return 2 * (Depth(group.ranks_per_node) * group.within.latency_ns() +
              Depth(group.num_nodes) * group.between.latency_ns()) +
         BytesTime(2 * sizeof(double), group.slowest);
}

int64_t RoomBytesOf(const CollectiveGroup& group, bool scatters, int64_t bytes) {
  if (group.collectives == ClusterSpec::NCCL) return 0;
  const NodeLayout layout = IsChained(group) ? NodeLayout{group.num_nodes, group.ranks_per_node}
                                             : NodeLayout{1, group.num_ranks};
  return ReductionBufferFor(layout, scatters, bytes, ReductionChunkBytes(layout.num_nodes))
      .size_bytes();
}

}  // namespace dpipe
