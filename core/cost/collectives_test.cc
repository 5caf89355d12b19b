#include "core/cost/collectives.h"

#include "core/base/philox.h"
#include "core/cost/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Nodes of 4 devices; 1 ns a byte within (10 ns), 2 ns a byte between (100 ns).
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
  EXPECT_EQ(BroadcastTime(group, 4000), 30 + 4000);  // a chain streams
  EXPECT_EQ(BroadcastTime(group, 4), 2 * (10 + 4));  // a tree has fewer steps
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 1), {2}), 4000), 0);
}

TEST(CollectivesTest, BetweenNodesTheInterfacesAreShared) {
  std::vector<int> ranks = {0, 1, 2, 3, 4, 5, 6, 7};
  // Within: 2 x (3 x 10 + 3/4 x 8000); between: 2 x (100 + 1/2 x 8000 x 2 / interfaces).
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 1), ranks), 8000), 2 * 6030 + 2 * 8100);
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 2), ranks), 8000), 2 * 6030 + 2 * 4100);
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 4), ranks), 8000), 2 * 6030 + 2 * 2100);
  EXPECT_EQ(AllGatherTime(GroupOfRanks(Cluster(2, 4), ranks), 8000), 6030 + 2100);
  // Two ranks of a node on one of its two interfaces have that one alone.
  EXPECT_EQ(GroupOfRanks(Cluster(2, 2), {0, 1, 4, 5}).interfaces, 1);
  EXPECT_EQ(GroupOfRanks(Cluster(2, 2), {0, 2, 4, 6}).interfaces, 2);
  EXPECT_EQ(GroupOfRanks(Cluster(2, 2), {0, 2, 4, 5}).interfaces, 1);
  EXPECT_EQ(GroupOfRanks(Cluster(2, 2), {0, 1, 4}).ranks_per_node, 0);
}

// Three ranks of a node and two of another: of 5000 bytes, an interface carries 3 x 2/5 a lap.
TEST(CollectivesTest, UnevenNodesExchangeShares) {
  const std::vector<int> ranks = {0, 1, 2, 4, 5};
  EXPECT_EQ(AllReduceTime(GroupOfRanks(Cluster(2, 1), ranks), 5000), 2 * 4 * 100 + 2 * 6000 * 2);
  EXPECT_EQ(ReduceScatterTime(GroupOfRanks(Cluster(2, 1), ranks), 5000), 4 * 100 + 6000 * 2);
  // On two interfaces, and the second node's two ranks on one.
  EXPECT_EQ(AllGatherTime(GroupOfRanks(Cluster(2, 2), ranks), 5000), 4 * 100 + 6000 * 2);
  EXPECT_EQ(AllGatherTime(GroupOfRanks(Cluster(2, 2), {0, 1, 2, 4, 6}), 5000), 4 * 100 + 3000 * 2);
}

TEST(CollectivesTest, RanksToInterfaces) {
  std::vector<int> interfaces;
  for (int rank = 0; rank < 8; ++rank) interfaces.push_back(InterfaceOfRank(Cluster(2, 2), rank));
  EXPECT_EQ(interfaces, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(InterfaceOfRank(Cluster(2, 0), 7), 1);
}

TEST(CollectivesTest, PartsNeverTakeLessThanTheWholeAndAnAllReduceIsNoSlowerThanItsHalves) {
  for (int i = 0; i < 2000; ++i) {
    RandomStream stream(31, i, 0, RandomPurpose::kTest);
    const ClusterSpec cluster = RandomCluster(stream, 8);
    std::vector<int> ranks;
    for (int r = 0; r < 8; ++r) {
      if (stream.NextBelow(3) > 0) ranks.push_back(r);
    }
    if (ranks.empty()) continue;
    const CollectiveGroup group = GroupOfRanks(cluster, ranks);
    const int64_t a = stream.NextBelow(100000), b = stream.NextBelow(100000);
    for (const auto time : {AllReduceTime, ReduceScatterTime, AllGatherTime, BroadcastTime}) {
      EXPECT_GE(time(group, a) + time(group, b), time(group, a + b)) << i;
      EXPECT_LE(time(group, a), time(group, a + b)) << i;
    }
    EXPECT_LE(AllReduceTime(group, a), ReduceScatterTime(group, a) + AllGatherTime(group, a) + 2);
  }
}

}  // namespace
}  // namespace dpipe
