#include "core/planner/joint_search.h"

#include <memory>

#include "core/base/philox.h"
#include "core/cost/fake_profile.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Two backbones of random layers on four devices.
class JointSearchTest : public ::testing::Test {
 protected:
  JointSearchTest()
      : cost_(*CostModel::Create(Profile(), IdealCluster(4))), builder_(Filling(), {}, cost_) {
    shape_.schedule = "cascaded-zb";
    shape_.num_devices = shape_.devices_per_pipeline = shape_.num_stages = 4;
    shape_.num_micro_batches = 8;
    shape_.global_batch = 8;
  }

  static Strategy Filling() {
    Strategy strategy;
    strategy.set_name("filling");
    strategy.set_schedule("cascaded-zb");
    strategy.set_partitioner("balanced");
    strategy.set_frozen("fill");
    strategy.set_sync("bucketed");
    strategy.set_cross_iteration(true);
    strategy.set_partial_batch(true);
    strategy.set_tune(true);
    return strategy;
  }

  static ModelProfile Profile() {
    RandomStream stream(71, 0, 0, RandomPurpose::kTest);
    RandomProfileOptions options;
    options.num_backbones = 2;
    options.min_layers = options.max_layers = 40;
    options.max_layer_ns = 100000;
    return RandomProfile(stream, options);
  }

  PipelineCut Cut() {
    auto cut = builder_.Cut(shape_);
    EXPECT_TRUE(cut.ok()) << cut.status();
    cut->schedule = std::make_shared<const Schedule>(*builder_.ScheduleOf(shape_, *cut));
    return *std::move(cut);
  }

  const CostModel cost_;
  PlanBuilder builder_;
  PipelineShape shape_;
};

TEST_F(JointSearchTest, MoreMovesAreNeverWorseAndEndSound) {
  const PipelineCut cut = Cut();
  const JointResult none = SearchJointly(builder_, shape_, cut, {0});
  const JointResult some = SearchJointly(builder_, shape_, cut, {3000});
  const JointResult more = SearchJointly(builder_, shape_, cut, {20000});
  EXPECT_EQ(none.cut.stages, cut.stages);
  EXPECT_LE(some.makespan_ns, none.makespan_ns);
  EXPECT_LE(more.makespan_ns, some.makespan_ns);
  EXPECT_LT(more.makespan_ns, none.makespan_ns);
  EXPECT_NE(more.cut.stages, cut.stages);
  EXPECT_TRUE(more.cut.schedule->Verify().ok());
  for (size_t b = 0; b < cut.stages.size(); ++b) {
    int next = 0;
    for (const LayerRange& layers : more.cut.stages[b]) {
      EXPECT_EQ(layers.begin, next);
      EXPECT_GT(layers.end, layers.begin);
      next = layers.end;
    }
    EXPECT_EQ(next, cut.stages[b].back().end);
  }
  // Once more: the same.
  const JointResult again = SearchJointly(builder_, shape_, cut, {20000});
  EXPECT_EQ(again.cut.stages, more.cut.stages);
  EXPECT_EQ(again.cut.schedule->ToString(), more.cut.schedule->ToString());
}

// What was searched for by makespans is shorter by simulation, too.
TEST_F(JointSearchTest, ShortensTheSimulatedStep) {
  const PipelineCut cut = Cut();
  const JointResult joint = SearchJointly(builder_, shape_, cut, {20000});
  const auto before = builder_.Build(shape_, cut);
  const auto after = builder_.Build(shape_, joint.cut);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  EXPECT_LT(after->step_ns, before->step_ns);
}

}  // namespace
}  // namespace dpipe
