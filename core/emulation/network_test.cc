#include "core/emulation/network.h"

#include <utility>

#include "core/base/check.h"
#include "core/cost/testing/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

// Returns two nodes of two devices with one interface each. A byte takes 1 ns within a node and 2
// ns between nodes; a message takes 10 ns and 100 ns more.
CostModel TwoNodes() {
  ClusterSpec cluster;
  cluster.set_num_nodes(2);
  cluster.set_devices_per_node(2);
  cluster.mutable_intra_node()->set_latency_ns(10);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  cluster.mutable_inter_node()->set_latency_ns(100);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(5e8);
  auto cost = CostModel::Create(UniformProfile(), cluster);
  DPIPE_CHECK(cost.ok()) << cost.status();
  return *std::move(cost);
}

void ExpectSpan(TimeSpan span, Nanos start, Nanos end) {
  EXPECT_EQ(span.start_ns, start);
  EXPECT_EQ(span.end_ns, end);
}

TEST(EmulatedNetworkTest, AMessageTakesLatencyAndBytesOverBandwidth) {
  const CostModel cost = TwoNodes();
  EmulatedNetwork network(cost);
  ExpectSpan(network.Transfer(0, 1, 1000, 50), 50, 1060);
  ExpectSpan(network.Transfer(2, 0, 1000, 2000), 2000, 4100);
}

TEST(EmulatedNetworkTest, EnginesServeOneMessageAtATimeAndBothDirectionsAtOnce) {
  const CostModel cost = TwoNodes();
  EmulatedNetwork network(cost);
  ExpectSpan(network.Transfer(0, 1, 990, 0), 0, 1000);
  ExpectSpan(network.Transfer(0, 1, 990, 0), 1000, 2000);
  ExpectSpan(network.Transfer(1, 0, 990, 0), 0, 1000);
}

// 0 and 1 share their node's interface, 2 and 3 theirs.
TEST(EmulatedNetworkTest, MessagesBetweenNodesShareTheInterfaces) {
  const CostModel cost = TwoNodes();
  EmulatedNetwork network(cost);
  ExpectSpan(network.Transfer(0, 2, 450, 0), 0, 1000);
  ExpectSpan(network.Transfer(1, 3, 450, 0), 1000, 2000);
  ExpectSpan(network.Transfer(3, 1, 450, 0), 0, 1000);  // the opposite direction is free
}

TEST(EmulatedNetworkTest, ARootComplexServesOneMessageAtATime) {
  ClusterSpec cluster = IdealCluster(4);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  AddSharedLink("root", 4, 2e9, SharedLink::EVERYTHING, &cluster);
  const CostModel cost = *CostModel::Create(UniformProfile(), cluster);
  EmulatedNetwork network(cost);
  ExpectSpan(network.Transfer(0, 1, 1000, 0), 0, 1000);
  ExpectSpan(network.Transfer(2, 3, 1000, 0), 500, 1500);
  // Two edges of 500 bytes over 1 GB/s; the root is free at 1000 and busy for 2 x 500 bytes.
  ExpectSpan(network.Collective(CollectiveKind::kAllGather, {0, 1}, 1000, 0), 1000, 1500);
  ExpectSpan(network.Collective(CollectiveKind::kAllGather, {2, 3}, 1000, 0), 1500, 2000);
}

TEST(EmulatedNetworkTest, ACollectiveBetweenNodesHoldsItsMembersInterfaces) {
  const CostModel cost = TwoNodes();
  EmulatedNetwork network(cost);
  const Nanos length = cost.AllReduce({0, 2}, 1000);
  ExpectSpan(network.Collective(CollectiveKind::kAllReduce, {0, 2}, 1000, 7), 7, 7 + length);
  ExpectSpan(network.Collective(CollectiveKind::kAllReduce, {1, 3}, 1000, 7), 7 + length,
             7 + 2 * length);
  ExpectSpan(network.Transfer(1, 3, 450, 0), 7 + 2 * length, 1007 + 2 * length);
  // Within a node it occupies no interface, and messages there occupy no collective stream.
  EmulatedNetwork other(cost);
  ExpectSpan(other.Collective(CollectiveKind::kAllGather, {0, 1}, 1000, 0), 0,
             cost.AllGather({0, 1}, 1000));
  ExpectSpan(other.Transfer(0, 2, 450, 0), 0, 1000);
}

ClusterSpec Cluster(double contention_factor, bool collectives_use_compute) {
  ClusterSpec cluster;
  cluster.set_contention_factor(contention_factor);
  cluster.set_collectives_use_compute(collectives_use_compute);
  return cluster;
}

TEST(InterferenceTest, ComputingIsSlowerWhileTheDeviceCommunicates) {
  Interference interference(Cluster(2, false), 2);
  interference.AddTransfer(0, {100, 200});
  EXPECT_EQ(interference.EndOf(0, 0, 90), 90);    // over before the transfer
  EXPECT_EQ(interference.EndOf(0, 0, 150), 200);  // 100, and 50 at half speed
  EXPECT_EQ(interference.EndOf(0, 0, 170), 220);
  EXPECT_EQ(interference.EndOf(1, 0, 150), 150);  // the other device
  interference.AddCollective(0, {150, 160});      // both at once do not slow down more
  EXPECT_EQ(interference.EndOf(0, 0, 170), 220);
  EXPECT_EQ(interference.EndOf(0, 200, 50), 250);
}

TEST(InterferenceTest, CollectivesOnComputeUnitsBlock) {
  Interference interference(Cluster(1, true), 1);
  interference.AddTransfer(0, {0, 1000});  // uses no compute units
  interference.AddCollective(0, {100, 300});
  EXPECT_EQ(interference.EndOf(0, 50, 50), 100);
  EXPECT_EQ(interference.EndOf(0, 50, 51), 301);
  EXPECT_EQ(interference.EndOf(0, 150, 0), 300);
}

// The simulator's rule, also for computations of zero length.
TEST(InterferenceTest, WorkEndingAsACollectiveBeginsIsNotBlocked) {
  Interference interference(Cluster(1, true), 1);
  interference.AddCollective(0, {100, 300});
  interference.AddCollective(0, {300, 400});
  EXPECT_EQ(interference.EndOf(0, 90, 10), 100);
  EXPECT_EQ(interference.EndOf(0, 100, 0), 100);
  EXPECT_EQ(interference.EndOf(0, 100, 1), 401);
  EXPECT_EQ(interference.EndOf(0, 101, 0), 300) << "held up by the first, not by the second";
}

TEST(InterferenceTest, NoInterferenceIfTheClusterHasNone) {
  Interference interference(Cluster(0, false), 1);
  interference.AddTransfer(0, {0, 1000});
  interference.AddCollective(0, {0, 1000});
  EXPECT_EQ(interference.EndOf(0, 10, 20), 30);
}

}  // namespace

}  // namespace dpipe
