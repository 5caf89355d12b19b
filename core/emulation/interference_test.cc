#include "core/emulation/interference.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

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
