#include "core/planner/search/joint_search.h"

#include <memory>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/tuning/pass_graph.h"
#include "core/schedule/tuning/pass_sequences.h"
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
  const JointResult none = SearchJointly(builder_, shape_, cut, {0}).front();
  const JointResult some = SearchJointly(builder_, shape_, cut, {3000}).front();
  const JointResult more = SearchJointly(builder_, shape_, cut, {20000}).front();
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
  // Deterministic: a second run gives the same result.
  const JointResult again = SearchJointly(builder_, shape_, cut, {20000}).front();
  EXPECT_EQ(again.cut.stages, more.cut.stages);
  EXPECT_EQ(again.cut.schedule->ToString(), more.cut.schedule->ToString());
}

TEST_F(JointSearchTest, WanderingIsNeverWorseWithMoreMovesAndDeterministic) {
  const PipelineCut cut = Cut();
  const std::vector<JointResult> none = SearchJointly(builder_, shape_, cut, {0, true});
  const std::vector<JointResult> some = SearchJointly(builder_, shape_, cut, {3000, true});
  const std::vector<JointResult> more = SearchJointly(builder_, shape_, cut, {20000, true});
  EXPECT_LE(some[0].makespan_ns, none[0].makespan_ns);
  EXPECT_LE(more[0].makespan_ns, some[0].makespan_ns);
  EXPECT_LT(more[0].makespan_ns, none[0].makespan_ns);
  EXPECT_TRUE(more[0].cut.schedule->Verify().ok());
  const std::vector<JointResult> again = SearchJointly(builder_, shape_, cut, {20000, true});
  EXPECT_EQ(again[0].cut.stages, more[0].cut.stages);
  EXPECT_EQ(again[0].cut.schedule->ToString(), more[0].cut.schedule->ToString());
}

// The best few have different cuts and are in order.
TEST_F(JointSearchTest, KeepsTheBestFew) {
  const std::vector<JointResult> found = SearchJointly(builder_, shape_, Cut(), {20000});
  ASSERT_GT(found.size(), 1u);
  ASSERT_LE(found.size(), 4u);
  for (size_t i = 1; i < found.size(); ++i) {
    EXPECT_LE(found[i - 1].makespan_ns, found[i].makespan_ns);
    for (size_t k = 0; k < i; ++k) EXPECT_NE(found[k].cut.stages, found[i].cut.stages);
  }
  for (const JointResult& result : found) {
    const PassGraph graph(*result.cut.schedule,
                          builder_.TimesOf(shape_, result.cut, *result.cut.schedule));
    const PassSequences sequences(graph, graph.TopologicalOrderBy(graph.OriginalStartTimes()));
    EXPECT_LE(sequences.makespan_ns(), result.makespan_ns);
  }
}

// What is shorter by makespans is shorter by simulation too.
TEST_F(JointSearchTest, ShortensTheSimulatedStep) {
  const PipelineCut cut = Cut();
  const JointResult joint = SearchJointly(builder_, shape_, cut, {20000}).front();
  const auto before = builder_.Build(shape_, cut);
  const auto after = builder_.Build(shape_, joint.cut);
  ASSERT_TRUE(before.ok() && after.ok()) << before.status() << after.status();
  EXPECT_LT(after->step_ns, before->step_ns);
}

}  // namespace
}  // namespace dpipe
