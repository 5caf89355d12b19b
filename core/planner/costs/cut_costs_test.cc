#include "core/planner/costs/cut_costs.h"

#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// 4 layers: per sample 1000 ns forward and 2 x 500 ns backward, 100 bytes per value, 40 bytes of
// weights, 7 saved bytes. Links: 1 ns per byte and 10 ns per message.
ModelProfile Model() {
  UniformProfileOptions options;
  options.value_bytes = 100;
  options.parameter_bytes = 40;
  options.saved_bytes = 7;
  return UniformProfile(options);
}

ClusterSpec Cluster(int64_t memory_bytes) {
  ClusterSpec cluster;
  cluster.set_num_nodes(1);
  cluster.set_devices_per_node(2);
  cluster.set_memory_bytes_per_device(memory_bytes);
  cluster.mutable_intra_node()->set_latency_ns(10);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(1e9);
  cluster.mutable_inter_node()->set_latency_ns(50);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(5e8);
  return cluster;
}

// Two stages of two layers, four micro-batches of two samples, 1f1b.
struct Pipeline {
  explicit Pipeline(int64_t memory_bytes)
      : cost(*CostModel::Create(Model(), Cluster(memory_bytes))),
        schedule(*MakeSchedule("1f1b", {2, 4})) {
    cut.stages = {{{0, 2}, {2, 4}}};
    cut.replicas = {1, 1};
    cut.seating = {0, 1};
    cut.recompute = {false, false};
    StageCostsOptions options;
    options.devices_per_pipeline = 2;
    options.micro_batch_size = 2;
    costs =
        std::make_unique<CutCosts>(cost,
                                   std::vector<std::shared_ptr<const BackboneTables>>{
                                       std::make_shared<BackboneTables>(cost, cost.backbone())},
                                   std::vector<StageCostsOptions>{options}, shape, cut, schedule);
  }

  const CostModel cost;
  const Schedule schedule;
  const PipelineShape shape{"1f1b", 2, 2, 2, 4, 8};
  PipelineCut cut;
  std::unique_ptr<CutCosts> costs;
};

// Weights, gradients and two moments of two layers; two samples of two layers.
constexpr int64_t kState = 2 * 4 * 40;
constexpr int64_t kPair = 2 * 2 * 7;

TEST(CutCostsTest, MessagesOfAStraightPipelineByHand) {
  const Pipeline pipeline(0);
  EXPECT_EQ(pipeline.costs->ForwardDelays(), (std::vector<Nanos>{10 + 200, 0}));
  EXPECT_EQ(pipeline.costs->GradientDelays(), (std::vector<Nanos>{0, 10 + 200}));
}

TEST(CutCostsTest, MemoryThatIsFree) {
  const Pipeline pipeline(1000);
  // The first stage keeps two micro-batches, the last one.
  EXPECT_EQ(*pipeline.costs->FreeBytes(0, pipeline.cut.stages), 1000 - kState - 2 * kPair);
  EXPECT_EQ(*pipeline.costs->FreeBytes(1, pipeline.cut.stages), 1000 - kState - kPair);
  EXPECT_EQ(pipeline.costs->LargestPairBytes(0, pipeline.cut.stages), kPair);
  EXPECT_FALSE(Pipeline(0).costs->FreeBytes(0, pipeline.cut.stages).has_value());
}

TEST(CutCostsTest, StagesKeepWhatFits) {
  EXPECT_EQ(Pipeline(0).costs->StageLimits(0), (std::vector<int>{4, 4}));
  const Pipeline pipeline(kState + 3 * kPair + kPair / 2);
  EXPECT_EQ(pipeline.costs->StageLimits(0), (std::vector<int>{3, 3}));
  // A fifth of the memory is more than half of the free memory.
  EXPECT_EQ(pipeline.costs->StageLimits(0.2), (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace dpipe
