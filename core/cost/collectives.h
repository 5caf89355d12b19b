// What collectives cost on a cluster, in the alpha-beta model: a step of an algorithm takes its
// link's latency (alpha) and its bytes over the link's bandwidth.                [algorithms.md §6]
//
// n ranks; the ranks of a node stand next to each other, so that a ring or a tree crosses a node's
// border once in each direction. alpha and beta (seconds a byte) are those of the slowest link that
// takes part: the larger latency, the smaller bandwidth. x is the size of the whole vector.
//
//   all-reduce      ring            2 (n-1) alpha + 2 (n-1)/n x beta
//                   tree            2 ceil(log2 n) alpha + 2 x beta
//   reduce-scatter  ring            (n-1) alpha + (n-1)/n x beta          (half of the ring's
//   all-gather      ring            likewise                               all-reduce)
//   broadcast       chain           (n-1) alpha + x beta
//                   tree            ceil(log2 n) (alpha + x beta)
//
// Ring: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations"
// (2009). Tree: up and down, the data streaming through (Sanders, Speck and Träff, "Two-tree
// algorithms for full bandwidth broadcast, reduction and scan", 2009).
//
// The quickest of those that apply is taken, where each node holds one of the ranks or a single
// node holds them all.
//
// Where they lie on k > 1 nodes, l = n/k > 1 on each, the prices are those of what the runtime does
// over NCCL (core/comm/nccl/exact_sums.h). Within its node a rank exchanges its share of 1/l with
// the others, which between the nodes share the j interfaces that they are attached to. A sum goes
// up a chain of the nodes and back, in chunks of c bytes at most (core/base/reduction_chunks.h), a
// step each, m in number; a gathered shard goes straight to every other node:
//
//   all-reduce      2 (l-1) alpha_in + 2 (l-1)/l x beta_in
//                   + (m + 2k-3) alpha_out + (2 x + 2 (k-2) c)/j beta_out
//                                            (x + c)/j beta_out where k = 2
//   reduce-scatter  (l-1) alpha_in + (l-1)/l x beta_in
//                   + (m + k-1) alpha_out + (2 (k-1)/k x + (k-1) c)/j beta_out
//   all-gather      (l-1) alpha_in + (l-1)/l x beta_in + (k-1) alpha_out + (k-1)/k x/j beta_out
//
// A chunk goes 2 (k-1) steps up and back, and each of the others comes a step behind. Where k > 2,
// a node in the middle sends two chunks in a step, one up and one back, as soon as the first is on
// its way back; where k = 2, each node sends one. A reduce-scatter's sums go from the last node to
// the one that they are for, which receives one going up in the same step unless it is the first or
// the last (of fewer than 2k chunks that is too much by up to a half; a price that were not would
// be less for two halves than for the whole). The transfers within nodes run beside those between
// them, but what ranks add up in between, which has no price of its own, takes about as long; so
// they are added.
//
// ClusterSpec.collectives = NCCL instead gives the prices of NCCL's own algorithms on several nodes
// (Hu et al., "Demystifying NCCL", arXiv 2507.04786): a ring with a channel per interface, and the
// double binary tree between nodes with a chain within each. The transfers of a ring or a tree
// stream, so that the slower kind of link sets the pace:
//
//   one lap         (n-k) alpha_in + (k-1) alpha_out + (n-1)/n x max(beta_in, beta_out/j)
//   reduce-scatter, all-gather    one lap
//   all-reduce      two laps, or 2 ((l-1) alpha_in + ceil(log2 k) alpha_out) +
//                   x max(2 beta_in, t beta_out/j), whichever is less; t = 1 where k = 2, else 2
//
// In the double tree each node is a leaf of one half and inside the other, so that its interfaces
// carry the vector twice in each direction; of two nodes each is the other's parent, once. l is the
// largest number of ranks per node and j the smallest number of interfaces, so that nodes may
// differ.
//
// Where the nodes hold different numbers of the ranks there is, of our own, neither a ring nor a
// tree: every rank exchanges shares with every other one, as the runtime does then. Of a lap, an
// interface of a node with m of the ranks carries m (n-m)/n x/j, which is (n-1)/n x where m = j
// = 1.
//
// No cost gets cheaper by cutting a vector in two: each is a sum and a minimum of functions that do
// not, a + b x with a, b >= 0, m and min(c, x).
#ifndef DPIPE_CORE_COST_COLLECTIVES_H_
#define DPIPE_CORE_COST_COLLECTIVES_H_

#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "core/proto/cluster.pb.h"

namespace dpipe {

// The interface that a rank uses, counted over all nodes: a node's devices are dealt evenly, in
// order, to its interfaces.
int InterfaceOfRank(const ClusterSpec& cluster, int rank);

// Where the ranks of a collective lie.
struct CollectiveGroup {
  ClusterSpec::Collectives collectives = ClusterSpec::EXACT;
  int num_ranks = 0;
  int num_nodes = 0;
  int max_ranks_per_node = 0;
  int ranks_per_node = 0;  // 0 where the nodes' numbers differ
  int interfaces = 0;      // the fewest that a node's ranks are attached to
  // The largest part of a vector that an interface carries where each rank sends every other one
  // its share.
  double exchanged = 0;
  Link slowest;          // of the links that take part
  Link within, between;  // a node, nodes
};

// `ranks` are distinct ranks of a valid cluster, in any order. O(n log n).
CollectiveGroup GroupOfRanks(const ClusterSpec& cluster, std::vector<int> ranks);

// Rounded up to whole nanoseconds; 0 for one rank.
Nanos AllReduceTime(const CollectiveGroup& group, int64_t bytes);
Nanos ReduceScatterTime(const CollectiveGroup& group, int64_t bytes);
Nanos AllGatherTime(const CollectiveGroup& group, int64_t bytes);
Nanos BroadcastTime(const CollectiveGroup& group, int64_t bytes);
// Of a single number, which every rank gets: by a tree within nodes and one between them.
Nanos NumberSumTime(const CollectiveGroup& group);

// The memory besides its tensors that a rank needs for one of our own all-reduces or
// reduce-scatters over NCCL (core/base/reduction_chunks.h); 0 for NCCL's, whose buffers a
// communicator has from the start.
int64_t RoomBytesOf(const CollectiveGroup& group, bool scatters, int64_t bytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_COLLECTIVES_H_
