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
// Where the ranks lie on k > 1 nodes, l = n/k on each, there is also the hierarchical algorithm:
// reduce-scatter inside each node, all-reduce between the nodes, all-gather inside each node. The l
// ranks of a node each hold 1/l of the vector between the nodes and share the j interfaces that
// they are attached to, so an interface carries 1/j of it:
//
//   all-reduce      2 (l-1) alpha_in + 2 (l-1)/l x beta_in + 2 (k-1) alpha_out
//                   + 2 (k-1)/k x/j beta_out
//   reduce-scatter, all-gather: half of that
//
// The quickest of those that apply is taken. Over NCCL the runtime does as the hierarchical one
// does (core/comm/nccl/exact_sums.h): its chain of nodes carries 2 x/j for an all-reduce between
// more than two nodes instead of 2 (k-1)/k x/j.
//
// Where the nodes hold different numbers of the ranks there is neither a ring nor a tree: every
// rank exchanges shares with every other one, as the runtime does then. Of a lap, an interface of a
// node with m of the ranks carries m (n-m)/n x/j, which is (n-1)/n x where m = j = 1.
//
// Every cost is a minimum of functions a + b x with a, b >= 0, so it never gets cheaper by cutting
// a vector in two.
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
  int num_ranks = 0;
  int num_nodes = 0;
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

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_COLLECTIVES_H_
