// Messages and collectives that share links, by hand: one pipeline of two stages.
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/testing/random_plan.h"
#include "core/sim/simulator.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Returns the steady step of one micro-batch in two stages of one layer each (forward 1000,
// backward 2 x 500), with `replicas` of each stage on neighbouring devices.
Nanos StepOf(const ClusterSpec& cluster, const UniformProfileOptions& model, int replicas,
             SyncPolicy sync) {
  const auto cost = CostModel::Create(UniformProfile(model), cluster);
  EXPECT_TRUE(cost.ok()) << cost.status();
  const PipelineLayout layout =
      StraightLayout(4, 1, replicas, {{{0, 1}, replicas}, {{1, 2}, replicas}});
  LowerOptions lower;
  lower.global_norm = false;
  lower.sync = sync;
  const auto plan = LowerPlan(layout, *MakeSchedule("1f1b", {2, 1}), lower, *cost);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const auto step = SteadyStepTime(*plan, *cost);
  EXPECT_TRUE(step.ok()) << step.status();
  return *step;
}

// Of two replicas that exchange activations and gradients of 500 bytes.
Nanos StepWithMessages(const ClusterSpec& cluster) {
  UniformProfileOptions model;
  model.num_layers = 2;
  model.value_bytes = 500;
  return StepOf(cluster, model, 2, SyncPolicy::kEnd);
}

// Of stages whose gradients of 100 bytes are reduced.
Nanos StepWithReductions(const ClusterSpec& cluster, int replicas) {
  UniformProfileOptions model;
  model.num_layers = 2;
  model.parameter_bytes = 100;
  return StepOf(cluster, model, replicas, LowerOptions().sync);
}

// One stage per node: every message crosses.
TEST(SharedLinksTest, MessagesBetweenNodesShareTheInterface) {
  ClusterSpec cluster = IdealCluster(2);
  cluster.set_num_nodes(2);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(1e9);
  // Four passes of 1000. Both activations are ready at once and are sent one after the other: they
  // arrive after 500 and 1000. The gradients are made 500 apart, so neither waits for the other:
  // 500.
  EXPECT_EQ(StepWithMessages(cluster), 4000 + 1000 + 500);
  // With two interfaces per node, the messages of the two replicas do not wait for each other.
  cluster.set_interfaces_per_node(2);
  EXPECT_EQ(StepWithMessages(cluster), 4000 + 500 + 500);
}

// All four devices are behind one root complex that moves two messages in the time of one.
TEST(SharedLinksTest, MessagesShareARootComplex) {
  ClusterSpec cluster = IdealCluster(4);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  AddSharedLink("root", 4, 2e9, SharedLink::EVERYTHING, &cluster);
  // The second activation leaves when the first one's 250 on the root are over. The gradients are
  // made 250 apart.
  EXPECT_EQ(StepWithMessages(cluster), 4000 + 250 + 500 + 500);
}

// A pipeline of two stages in each of two nodes: both stages are reduced across the nodes.
TEST(SharedLinksTest, ReductionsBetweenNodesShareTheInterface) {
  ClusterSpec cluster = IdealCluster(2);
  cluster.set_num_nodes(2);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(5e7);  // a reduction takes 2000
  // The last stage's reduction is ready at 3000, the first stage's at 4000.
  cluster.set_interfaces_per_node(1);
  EXPECT_EQ(StepWithReductions(cluster, 1), 3000 + 2000 + 2000);
  cluster.set_interfaces_per_node(2);
  EXPECT_EQ(StepWithReductions(cluster, 1), 4000 + 2000);
}

TEST(SharedLinksTest, ReductionsShareARootComplex) {
  ClusterSpec cluster = IdealCluster(4);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(5e7);  // a reduction takes 2000
  AddSharedLink("root", 4, 1e8, SharedLink::EVERYTHING, &cluster);
  // The last stage's reduction is ready at 3000 and occupies the root for 2 edges x 100 bytes; the
  // first stage's is ready at 4000.
  EXPECT_EQ(StepWithReductions(cluster, 2), 3000 + 2000 + 2000);
  cluster.mutable_shared_links(0)->set_bandwidth_bytes_per_s(2e8);
  EXPECT_EQ(StepWithReductions(cluster, 2), 4000 + 2000);
}

}  // namespace
}  // namespace dpipe
