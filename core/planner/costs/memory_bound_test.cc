#include "core/planner/costs/memory_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/cost/testing/fake_profile.h"
#include "core/planner/costs/stage_costs.h"
#include "core/planner/pipeline/pipeline_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Returns the need of the fullest device, minimised over all cuts.
int64_t LeastOfAllCuts(const CostModel& cost, const PipelineShape& shape, int64_t frozen_bytes,
                       bool recompute, bool in_blocks) {
  const Schedule schedule = *MakePipelineSchedule(shape, {});
  StageCostsOptions options;
  options.num_groups = shape.num_groups();
  options.devices_per_pipeline = shape.devices_per_pipeline;
  options.micro_batch_size = shape.micro_batch_size();
  options.shards_state = shape.shards_state();
  options.frozen_bytes = frozen_bytes;
  options.recomputes_blocks = in_blocks;
  const ModelStageCosts costs(cost, std::make_shared<BackboneTables>(cost, cost.backbone()),
                              schedule, options);
  const PartitionProblem problem = MakePartitionProblem(
      costs, schedule, 0, std::vector<int>(shape.num_stages, shape.replicas()));
  const std::vector<DeviceSeat> seats = SeatsOfDevices(problem, recompute);
  int64_t least = std::numeric_limits<int64_t>::max();
  std::vector<LayerRange> stages;
  const std::function<void(int)> cut = [&](int begin) {
    const int left = problem.num_stages() - static_cast<int>(stages.size());
    if (left == 0) {
      if (begin != costs.num_layers()) return;
      const auto held = HeldStages(problem, stages);
      int64_t most = 0;
      for (int d = 0; d < problem.num_devices(); ++d) {
        most = std::max(most, costs.MemoryBytes(d, seats[d], held[d]));
      }
      least = std::min(least, most);
      return;
    }
    for (int end = begin + 1; end + left - 1 <= costs.num_layers(); ++end) {
      stages.push_back({begin, end});
      cut(end);
      stages.pop_back();
    }
  };
  cut(0);
  return least;
}

TEST(MemoryBoundTest, NoCutNeedsLess) {
  constexpr int64_t kLimit = 1000000;
  RandomStream random(41, 0, 0, RandomPurpose::kTest);
  int tight = 0, checked = 0;
  for (int round = 0; round < 300; ++round) {
    RandomProfileOptions profile_options;
    const ModelProfile profile = RandomProfile(random, profile_options);
    ClusterSpec cluster = IdealCluster(4);
    cluster.set_memory_bytes_per_device(kLimit);
    const CostModel cost = *CostModel::Create(profile, cluster);
    PipelineShape shape;
    const std::string schedules[] = {"1f1b",  "gpipe", "eager-1f1b", "interleaved", "wave",
                                     "zb-h1", "zb-v",  "v-min",      "chimera",     "zb-auto"};
    shape.schedule = schedules[random.NextBelow(10)];
    shape.num_devices = 4;
    shape.num_stages = 2 << random.NextBelow(2);
    shape.devices_per_pipeline =
        shape.num_stages * (random.NextBelow(2) > 0 ? 4 / shape.num_stages : 1);
    shape.num_micro_batches = 4 << random.NextBelow(3);
    shape.global_batch = 4 * shape.num_micro_batches * shape.num_groups();
    if (shape.schedule == "1f1b" && random.NextBelow(2) > 0) shape.sharding = Sharding::kZero1;
    const bool recompute = random.NextBelow(3) == 0;
    const int64_t frozen = random.NextBelow(100000);
    const bool in_blocks = recompute && round % 2 == 0;
    const int64_t least = LeastOfAllCuts(cost, shape, frozen, recompute, in_blocks);
    if (least == std::numeric_limits<int64_t>::max()) continue;  // fewer layers than stages
    MemoryBound bound(cost);
    const std::optional<double> share =
        bound.ShareOf(shape, {frozen, 0}, recompute, false, in_blocks);
    ASSERT_TRUE(share.has_value());
    ++checked;
    // Up to 1, the bound of all layers merged, which is no smaller, says that the shape may fit.
    const double need = static_cast<double>(least) / kLimit;
    if (*share > 1) {
      EXPECT_LE(*share, need + 1e-3) << round << " " << shape.schedule;
    }
    tight += !recompute && *share > 0.5 * need;
  }
  EXPECT_GT(checked, 200);
  EXPECT_GT(tight, checked / 4);
}

// By hand: 8 equal layers of 1000 parameter bytes (4000 of state) on 4 devices that keep 4, 3, 2
// and 1 micro-batches of 1 sample; nothing else. With x_d layers on device d, the fullest device is
// smallest if all hold the same x_d (4000 + n_d 2000), so the bound is 8 / (1/12000 + 1/10000 +
// 1/8000 + 1/6000).
TEST(MemoryBoundTest, EqualLayersGiveTheEvenDivision) {
  UniformProfileOptions uniform;
  uniform.num_layers = 8;
  uniform.parameter_bytes = 1000;
  uniform.saved_bytes = 2000;
  ClusterSpec cluster = IdealCluster(4);
  cluster.set_memory_bytes_per_device(10000);
  const CostModel cost = *CostModel::Create(UniformProfile(uniform), cluster);
  PipelineShape shape;
  shape.schedule = "1f1b";
  shape.num_devices = shape.devices_per_pipeline = shape.num_stages = 4;
  shape.num_micro_batches = shape.global_batch = 8;
  MemoryBound bound(cost);
  const double bytes = 8 / (1 / 12000. + 1 / 10000. + 1 / 8000. + 1 / 6000.);
  EXPECT_NEAR(*bound.ShareOf(shape, {}, false, false), bytes / 10000, 1e-9);
  EXPECT_NEAR(*bound.ShareOf(shape, {5000, 0}, false, false), (bytes + 5000) / 10000, 1e-9);
  // With recomputation, each keeps one.
  EXPECT_NEAR(*bound.ShareOf(shape, {5000, 0}, true, false), (12000 + 5000) / 10000., 1e-9);
  // In blocks, one layer: 2 x 4000 of state and 2000.
  EXPECT_NEAR(*bound.ShareOf(shape, {5000, 0}, true, false, true), (10000 + 5000) / 10000., 1e-9);
  cluster.set_memory_bytes_per_device(0);
  const CostModel unlimited = *CostModel::Create(UniformProfile(uniform), cluster);
  EXPECT_EQ(*MemoryBound(unlimited).ShareOf(shape, {}, false, false), 0);
}

// By hand: 8 layers of 1000 bytes of weights, of which 100 are trained (400 of state), whole on
// each of 4 devices. ZeRO-1 divides what is trained, ZeRO-3 everything.
TEST(MemoryBoundTest, OnlyZero3DividesFrozenWeights) {
  UniformProfileOptions uniform;
  uniform.num_layers = 8;
  uniform.parameter_bytes = 1000;
  ModelProfile profile = UniformProfile(uniform);
  for (LayerProfile& layer : *profile.mutable_components(0)->mutable_layers()) {
    layer.set_trainable_parameter_bytes(100);
  }
  ClusterSpec cluster = IdealCluster(4);
  cluster.set_memory_bytes_per_device(2000);
  const CostModel cost = *CostModel::Create(profile, cluster);
  PipelineShape shape;
  shape.schedule = "single";
  shape.num_devices = shape.devices_per_pipeline = 4;
  shape.num_stages = shape.num_micro_batches = 1;
  shape.global_batch = 4;
  const auto share = [&](Sharding sharding) {
    shape.sharding = sharding;
    return *MemoryBound(cost).ShareOf(shape, {}, false, false);
  };
  EXPECT_NEAR(share(Sharding::kNone), 8 * (900 + 400) / 2000., 1e-9);
  EXPECT_NEAR(share(Sharding::kZero1), 8 * (900 + 100) / 2000., 1e-9);
  EXPECT_NEAR(share(Sharding::kZero3), 8 * (225 + 100) / 2000., 1e-9);
}

// 32 devices are merged into 16, each representing two.
TEST(MemoryBoundTest, MergedNeighboursNeedNoMoreThanEachAlone) {
  UniformProfileOptions uniform;
  uniform.num_layers = 64;
  uniform.parameter_bytes = 1000;
  uniform.saved_bytes = 2000;
  ClusterSpec cluster = IdealCluster(32);
  cluster.set_memory_bytes_per_device(10000);
  const CostModel cost = *CostModel::Create(UniformProfile(uniform), cluster);
  PipelineShape shape;
  shape.schedule = "1f1b";
  shape.num_devices = shape.devices_per_pipeline = shape.num_stages = 32;
  shape.num_micro_batches = shape.global_batch = 64;
  double parts = 0;
  for (int kept = 1; kept <= 32; ++kept) parts += 1 / (4000. + 2000 * kept);
  const double share = *MemoryBound(cost).ShareOf(shape, {}, false, false);
  EXPECT_LE(share, 64 / parts / 10000 + 1e-9);
  EXPECT_GE(share, 0.9 * 64 / parts / 10000);
}

}  // namespace
}  // namespace dpipe
