#include "core/cost/collectives.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/base/reduction_chunks.h"
#include "core/cost/testing/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Nodes of 4 devices: 1 ns per byte within (10 ns latency), 2 ns per byte between (100 ns).
ClusterSpec Cluster(int num_nodes, int interfaces) {
  ClusterSpec cluster;
  cluster.set_num_nodes(num_nodes);
  cluster.set_devices_per_node(4);
  cluster.set_interfaces_per_node(interfaces);
  cluster.mutable_intra_node()->set_latency_ns(10);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  cluster.mutable_inter_node()->set_latency_ns(100);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(5e8);
  return cluster;
}

TEST(CollectivesTest, WithinANodeByHand) {
  const CollectiveGroup group = GroupOfRanks(Cluster(2, 1), {3, 0, 1, 2});
  EXPECT_EQ(AllReduceTime(group, 4000), 6 * 10 + 6000);  // ring: 2 x 3/4
  EXPECT_EQ(AllReduceTime(group, 4), 4 * 10 + 8);        // tree: up 2 and down 2
  EXPECT_EQ(ReduceScatterTime(group, 4000), 30 + 3000);
  EXPECT_EQ(AllGatherTime(group, 4000), 30 + 3000);
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 1), {2}), 4000), 0);
}

TEST(CollectivesTest, BetweenNodesTheInterfacesAreShared) {
  std::vector<int> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  // Within: 2 x (3 x 10 + 3/4 x 8000); between, a chunk there and back: 2 x (100 + 8000 x 2 /
  // interfaces).
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 1), ranks), 8000), 2 * 6030 + 2 * 16100);
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 2), ranks), 8000), 2 * 6030 + 2 * 8100);
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 4), ranks), 8000), 2 * 6030 + 2 * 4100);
  EXPECT_EQ(ReduceScatterTime(GroupOfRanks(Cluster(2, 4), ranks), 8000), 6030 + 2 * 4100);
  EXPECT_EQ(AllGatherTime(GroupOfRanks(Cluster(2, 4), ranks), 8000), 6030 + 2100);
  // Two ranks of a node on one of its two interfaces have only that one.
  EXPECT_EQ(GroupOfRanks(Cluster(2, 2), {0, 1, 4, 5}).interfaces, 1);
  EXPECT_EQ(GroupOfRanks(Cluster(2, 2), {0, 2, 4, 6}).interfaces, 2);
  EXPECT_EQ(GroupOfRanks(Cluster(2, 2), {0, 2, 4, 5}).interfaces, 1);
  EXPECT_EQ(GroupOfRanks(Cluster(2, 2), {0, 1, 4}).ranks_per_node, 0);
}

// Simulates `num_chunks` of `chunk` bytes over one interface per node (latency 100 ns, 2 ns per
// byte), with free links within the nodes. A transfer begins when both sides have reached it, and a
// node's step ends with its transfers. The steps are those of core/comm/nccl/exact_sums.cc.
Nanos StepByStep(int num_nodes, int num_chunks, int64_t chunk, bool scatters) {
  const int k = num_nodes;
  std::vector<Nanos> reached(k, 0);
  for (int step = 0; step < num_chunks + 2 * k; ++step) {
    std::vector<double> sent(k, 0), received(k, 0);
    std::vector<std::pair<int, int>> pairs;
    const auto transfer = [&](int c, int from, int to, double bytes) {
      if (c < 0 || c >= num_chunks) return;
      sent[from] += bytes;
      received[to] += bytes;
      pairs.emplace_back(from, to);
    };
    for (int node = 0; node + 1 < k; ++node) {
      transfer(step - node - 2, node, node + 1, chunk);
      if (!scatters) transfer(step - 2 * k + node + 1, node + 1, node, chunk);
    }
    for (int home = 0; scatters && home + 1 < k; ++home) {
      const int c = step - k - 1;  // its part of all chunks that home h is for
      const double begin = std::max(1.0 * c / num_chunks, 1.0 * home / k);
      const double end = std::min((c + 1.0) / num_chunks, (home + 1.0) / k);
      if (end > begin) transfer(c, k - 1, home, chunk * (end - begin) * num_chunks);
    }
    std::vector<Nanos> duration(k, 0), over = reached;
    for (int node = 0; node < k; ++node) {
      const double bytes = std::max(sent[node], received[node]);
      if (bytes > 0) duration[node] = 100 + std::llround(2 * bytes);
    }
    for (const auto& [from, to] : pairs) {
      const Nanos end =
          std::max(reached[from], reached[to]) + std::max(duration[from], duration[to]);
      over[from] = std::max(over[from], end);
      over[to] = std::max(over[to], end);
    }
    reached = over;
  }
  return *std::max_element(reached.begin(), reached.end());
}

CollectiveGroup ChainOf(int num_nodes) {
  ClusterSpec cluster = Cluster(num_nodes, 1);
  cluster.mutable_intra_node()->set_latency_ns(0);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e30);
  std::vector<int> ranks(4 * num_nodes);
  std::iota(ranks.begin(), ranks.end(), 0);
  return GroupOfRanks(cluster, ranks);
}

// An all-reduce's price equals the time of its steps, except for two chunks, which do not meet. The
// price of a reduce-scatter of few chunks is higher: its last sums return when nothing goes up.
TEST(CollectivesTest, ChainsOfNodesTakeWhatTheirStepsDo) {
  for (int k = 2; k <= 16; ++k) {
    const int64_t chunk = ReductionChunkBytes(k);
    const Nanos step = 100 + 2 * chunk;
    for (int m = 1; m <= 40; ++m) {
      const Nanos summed = AllReduceTime(ChainOf(k), m * chunk);
      const Nanos all_reduce = StepByStep(k, m, chunk, /*scatters=*/false);
      EXPECT_GE(summed, all_reduce - 1000) << k << " nodes, " << m << " chunks";
      EXPECT_LE(summed, all_reduce + (m == 2 ? step : 1000)) << k << " nodes, " << m << " chunks";
      const Nanos scattered = ReduceScatterTime(ChainOf(k), m * chunk);
      const Nanos reduce_scatter = StepByStep(k, m, chunk, /*scatters=*/true);
      EXPECT_GE(scattered, reduce_scatter - 1000) << k << " nodes, " << m << " chunks";
      EXPECT_LE(scattered, (m < 2 * k ? 1.5 : 1.05) * reduce_scatter + 2 * step)
          << k << " nodes, " << m << " chunks";
    }
  }
}

// For a large vector only the bytes per interface count: each direction once if k = 2.
TEST(CollectivesTest, ChainsOfManyNodesCarryAVectorTwice) {
  constexpr double kBytes = 4e12;
  const auto carried = [](Nanos time) { return static_cast<double>(time) / 2 / kBytes; };
  EXPECT_NEAR(carried(AllReduceTime(ChainOf(2), kBytes)), 1, 1e-3);
  EXPECT_NEAR(carried(AllReduceTime(ChainOf(3), kBytes)), 2, 1e-3);
  EXPECT_NEAR(carried(AllReduceTime(ChainOf(8), kBytes)), 2, 1e-3);
  EXPECT_NEAR(carried(ReduceScatterTime(ChainOf(2), kBytes)), 1, 1e-3);
  EXPECT_NEAR(carried(ReduceScatterTime(ChainOf(8), kBytes)), 1.75, 1e-3);
  EXPECT_NEAR(carried(AllGatherTime(ChainOf(8), kBytes)), 0.875, 1e-3);
}

// Three ranks of one node and two of another: per lap, an interface carries 3 x 2/5 of 5000 bytes.
TEST(CollectivesTest, UnevenNodesExchangeShares) {
  const std::vector<int> ranks = {0, 1, 2, 4, 5};
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 1), ranks), 5000), 2 * 4 * 100 + 2 * 6000 * 2);
  EXPECT_EQ(ReduceScatterTime(GroupOfRanks(Cluster(2, 1), ranks), 5000), 4 * 100 + 6000 * 2);
  // Two interfaces per node; both of the second node's ranks are on one.
  EXPECT_EQ(AllGatherTime(GroupOfRanks(Cluster(2, 2), ranks), 5000), 4 * 100 + 6000 * 2);
  EXPECT_EQ(AllGatherTime(GroupOfRanks(Cluster(2, 2), {0, 1, 2, 4, 6}), 5000), 4 * 100 + 3000 * 2);
}

// NCCL's on the same nodes, by hand: per lap of 8 ranks on 2 nodes 6 steps within and one between.
TEST(CollectivesTest, NcclStreamsOverAllLinks) {
  const auto group_of = [](int num_nodes, int interfaces, std::vector<int> ranks) {
    ClusterSpec cluster = Cluster(num_nodes, interfaces);
    cluster.set_collectives(ClusterSpec::NCCL);
    return GroupOfRanks(cluster, std::move(ranks));
  };
  const std::vector<int> eight = {0, 1, 2, 3, 4, 5, 6, 7};
  // 7/8 of 8000 bytes over one interface of 2 ns per byte; over four it is the link within a node
  // that sets the pace.
  EXPECT_EQ(ReduceScatterTime(group_of(2, 1, eight), 8000), 6 * 10 + 100 + 14000);
  EXPECT_EQ(AllGatherTime(group_of(2, 4, eight), 8000), 6 * 10 + 100 + 7000);
  // The tree: 3 steps within and one between, each way; two nodes are each other's parents.
  EXPECT_EQ(AllReduceTime(group_of(2, 1, eight), 8000), 2 * (3 * 10 + 100) + 16000);
  EXPECT_EQ(AllReduceTime(group_of(2, 4, eight), 1 << 20),
            2 * (6 * 10 + 100) + 2 * 7 * (1 << 20) / 8);  // the ring
  // One rank of each node: no link within takes part.
  EXPECT_EQ(ReduceScatterTime(group_of(3, 1, {0, 4, 8}), 3000), 2 * 100 + 4000);
  EXPECT_EQ(AllReduceTime(group_of(3, 1, {0, 4, 8}), 3000), 2 * 2 * 100 + 8000);
  // Uneven nodes have a ring, too.
  EXPECT_EQ(ReduceScatterTime(group_of(2, 1, {0, 1, 2, 4, 5}), 5000), 3 * 10 + 100 + 8000);
  // Within a node both are the same.
  EXPECT_EQ(AllReduceTime(group_of(2, 1, {0, 1, 2, 3}), 4000), 6 * 10 + 6000);
  EXPECT_EQ(RoomBytesOf(group_of(2, 1, eight), false, 8000), 0);
}

// Between nodes our reduce-scatter carries a large vector twice and NCCL's once.
TEST(CollectivesTest, NcclIsNoDearerThanExactSums) {
  for (int k = 2; k <= 8; ++k) {
    std::vector<int> ranks(4 * k);
    std::iota(ranks.begin(), ranks.end(), 0);
    ClusterSpec cluster = Cluster(k, 1);
    const CollectiveGroup exact = GroupOfRanks(cluster, ranks);
    cluster.set_collectives(ClusterSpec::NCCL);
    const CollectiveGroup nccl = GroupOfRanks(cluster, ranks);
    for (const int64_t bytes : {int64_t{1} << 20, int64_t{1} << 26, int64_t{1} << 32}) {
      for (const auto time : {AllReduceTime, ReduceScatterTime, AllGatherTime}) {
        // But for the latencies of its one long lap.
        EXPECT_LE(time(nccl, bytes), 1.001 * static_cast<double>(time(exact, bytes)))
            << k << " nodes, " << bytes;
      }
    }
    const double ratio = static_cast<double>(ReduceScatterTime(exact, int64_t{1} << 36)) /
                         static_cast<double>(ReduceScatterTime(nccl, int64_t{1} << 36));
    EXPECT_GT(ratio, k == 2 ? 1.4 : 1.7) << k << " nodes";
  }
}

TEST(CollectivesTest, AllEdgesOfARingShareARootComplex) {
  ClusterSpec cluster = Cluster(2, 1);
  AddSharedLink("root", 4, 2e9, SharedLink::EVERYTHING, &cluster);
  // 4 edges carry 3/4 of 4000 bytes each, at 0.5 ns a byte.
  const CollectiveGroup four = GroupOfRanks(cluster, {0, 1, 2, 3});
  EXPECT_EQ(ReduceScatterTime(four, 4000), 4 * 3000 / 2);
  EXPECT_EQ(AllReduceTime(four, 4000), 2 * 4 * 3000 / 2);
  // 2 edges carry half of it: no more than the devices' own links do in that time.
  EXPECT_EQ(AllGatherTime(GroupOfRanks(cluster, {1, 2}), 4000), 10 + 2000);
  // A root with one of the ranks is passed by the two edges that reach it.
  ClusterSpec pairs = Cluster(2, 1);
  AddSharedLink("root", 2, 2e8, SharedLink::EVERYTHING, &pairs);
  EXPECT_EQ(AllGatherTime(GroupOfRanks(pairs, {1, 2}), 4000), 2 * 2000 * 5);
}

TEST(CollectivesTest, ARingLeavesASwitchOnce) {
  ClusterSpec cluster = Cluster(2, 1);
  AddSharedLink("switch", 2, 5e8, SharedLink::LEAVING, &cluster);
  EXPECT_EQ(AllGatherTime(GroupOfRanks(cluster, {0, 1}), 4000), 10 + 2000);
  EXPECT_EQ(AllGatherTime(GroupOfRanks(cluster, {0, 1, 2, 3}), 4000), 2 * 3000);
  EXPECT_EQ(AllReduceTime(GroupOfRanks(cluster, {0, 1, 2, 3}), 4000), 2 * 2 * 3000);
}

TEST(CollectivesTest, PartsNeverTakeLessThanTheWhole) {
  for (int i = 0; i < 2000; ++i) {
    RandomStream stream(31, i, 0, RandomPurpose::kTest);
    ClusterSpec cluster = RandomCluster(stream, 8);
    if (stream.NextBelow(2) == 0) cluster.set_collectives(ClusterSpec::NCCL);
    if (stream.NextBelow(2) == 0) AddRandomSharedLinks(stream, &cluster);
    std::vector<int> ranks;
    for (int r = 0; r < 8; ++r) {
      if (stream.NextBelow(3) > 0) ranks.push_back(r);
    }
    if (ranks.empty()) continue;
    const CollectiveGroup group = GroupOfRanks(cluster, ranks);
    const int64_t most = i % 2 == 0 ? 100000 : 100000000;
    const int64_t a = stream.NextBelow(most), b = stream.NextBelow(most);
    for (const auto time : {AllReduceTime, ReduceScatterTime, AllGatherTime}) {
      EXPECT_GE(time(group, a) + time(group, b), time(group, a + b)) << i;
      EXPECT_LE(time(group, a), time(group, a + b)) << i;
    }
  }
}

}  // namespace
}  // namespace dpipe
