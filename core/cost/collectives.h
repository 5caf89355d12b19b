// Costs of collectives on a cluster, in the alpha-beta model: a step of an algorithm takes its
// link's latency (alpha) and its bytes over the link's bandwidth.                [algorithms.md §6]
//
// n is the number of ranks. Ranks of a node are adjacent, so that a ring or a tree crosses a node's
// border once in each direction. alpha and beta (seconds per byte) are those of the slowest
// participating link: the maximum latency and the minimum bandwidth. x is the size of the whole
// vector.
//
//   all-reduce      ring            2 (n-1) alpha + 2 (n-1)/n x beta
//                   tree            2 ceil(log2 n) alpha + 2 x beta
//   reduce-scatter  ring            (n-1) alpha + (n-1)/n x beta          (half of the ring's
//   all-gather      ring            the same                               all-reduce)
//
// Ring: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
// (2009). Tree: up and down, the data streaming through (Sanders, Speck and Träff, "Two-tree
// algorithms for full bandwidth broadcast, reduction and scan", 2009).
//
// If a single node holds all ranks, or each node holds one of them, the cost is that of the fastest
// applicable algorithm.
//
// If the ranks are on k > 1 nodes, l = n/k > 1 on each, the cost is that of the runtime's algorithm
// over NCCL (core/comm/nccl/exact_sums.h). Within its node a rank exchanges its share of 1/l with
// the others. Between the nodes, a node's ranks share the j interfaces to which they are attached.
// A sum goes up a chain of the nodes and back, in m chunks of at most c bytes
// (core/base/reduction_chunks.h), one step each. A gathered shard goes directly to every other
// node:
//
//   all-reduce      2 (l-1) alpha_in + 2 (l-1)/l x beta_in
//                   + (m + 2k-3) alpha_out + (2 x + 2 (k-2) c)/j beta_out
//                                            (x + c)/j beta_out if k = 2
//   reduce-scatter  (l-1) alpha_in + (l-1)/l x beta_in
//                   + (m + k-1) alpha_out + (2 (k-1)/k x + (k-1) c)/j beta_out
//   all-gather      (l-1) alpha_in + (l-1)/l x beta_in + (k-1) alpha_out + (k-1)/k x/j beta_out
//
// A chunk goes up and back in 2 (k-1) steps; each further chunk follows one step behind. If k > 2,
// a node in the middle sends two chunks in a step, one up and one back, as soon as the first is on
// its way back. If k = 2, each node sends one.
//
// The sums of a reduce-scatter go from the last node to their destination. In the same step that
// node also receives one going up, unless it is the first or the last. For fewer than 2k chunks
// this overestimates the cost by up to a half; an exact price would be lower for two halves than
// for the whole. Transfers within nodes overlap those between nodes. The two are nevertheless
// added, because the ranks' additions in between take about as long and have no price of their own.
//
// ClusterSpec.collectives = NCCL instead gives the prices of NCCL's own algorithms on several nodes
// (Hu et al., "Demystifying NCCL", arXiv 2507.04786): a ring with one channel per interface, and
// the double binary tree between nodes with a chain within each. Transfers of a ring or a tree
// stream, so the slower kind of link sets the pace:
//
//   one lap         (n-k) alpha_in + (k-1) alpha_out + (n-1)/n x max(beta_in, beta_out/j)
//   reduce-scatter, all-gather    one lap
//   all-reduce      the smaller of two laps and
//                   2 ((l-1) alpha_in + ceil(log2 k) alpha_out) + x max(2 beta_in, t beta_out/j);
//                   t = 1 if k = 2, else 2
//
// In the double tree each node is a leaf of one half and an inner node of the other, so its
// interfaces carry the vector twice in each direction. Two nodes are each other's parents: once. l
// is the maximum number of ranks per node and j the minimum number of interfaces, so nodes may
// differ.
//
// If the nodes hold different numbers of ranks, the runtime has neither a ring nor a tree. Every
// rank exchanges shares with every other rank, as the runtime does in this case. Per lap, an
// interface of a node with m of the ranks carries m (n-m)/n x/j, which is (n-1)/n x if m = j = 1.
//
// The cluster's shared_links (shared_links.h) are passed as by a ring over the ranks: if e of its
// edges pass one, a lap takes at least (n-1)/n x e over that link's bandwidth.
//
// Cutting a vector in two never makes a collective cheaper. Each cost is a sum and a minimum of
// functions with this property: a + b x with a, b >= 0, m and min(c, x).
#ifndef DPIPE_CORE_COST_COLLECTIVES_H_
#define DPIPE_CORE_COST_COLLECTIVES_H_

#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "core/proto/cluster.pb.h"

namespace dpipe {

// The placement of the ranks of a collective.
struct CollectiveGroup {
  ClusterSpec::Collectives collectives = ClusterSpec::EXACT;
  int num_ranks = 0;
  int num_nodes = 0;
  int max_ranks_per_node = 0;
  int ranks_per_node = 0;  // 0 if the nodes' numbers differ
  int interfaces = 0;      // that a node's ranks are attached to; minimum over the nodes
  // The largest part of a vector that an interface carries if each rank sends its share to every
  // other rank.
  double exchanged = 0;
  Link slowest;          // of the participating links
  Link within, between;  // within a node, between nodes
  // Time that a byte of the vector takes on the busiest of the cluster's shared_links per lap of a
  // ring; 0 if it has none.
  double shared_ns_per_byte = 0;
};

// Returns the placement of `ranks`: distinct ranks of a valid cluster, in any order. O(n log n).
CollectiveGroup GroupOfRanks(const ClusterSpec& cluster, std::vector<int> ranks);

enum class CollectiveKind { kAllReduce, kReduceScatter, kAllGather };

// Times of collectives, rounded up to whole nanoseconds; 0 for one rank.
Nanos AllReduceTime(const CollectiveGroup& group, int64_t bytes);
Nanos ReduceScatterTime(const CollectiveGroup& group, int64_t bytes);
Nanos AllGatherTime(const CollectiveGroup& group, int64_t bytes);
Nanos CollectiveTime(CollectiveKind kind, const CollectiveGroup& group, int64_t bytes);
// Number of laps of a ring that do the same: 2 for an all-reduce, 1 for its halves.
int LapsOf(CollectiveKind kind);
// Time to sum a single number over all ranks: one tree within each node and one between nodes.
Nanos NumberSumTime(const CollectiveGroup& group);

// Memory that a rank needs, in addition to its tensors, for one of our own all-reduces or
// reduce-scatters over NCCL (core/base/reduction_chunks.h). 0 for NCCL's collectives, whose buffers
// a communicator allocates when it is created.
int64_t RoomBytesOf(const CollectiveGroup& group, bool scatters, int64_t bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_COLLECTIVES_H_
