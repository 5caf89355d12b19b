// Clusters and devices at the limits of what is accepted: planned correctly, or refused.
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/cost_model.h"
#include "core/cost/testing/fake_profile.h"
#include "core/cost/validate.h"
#include "core/planner/search.h"
#include "core/schedule/verification/verify.h"
#include "core/sim/lower_bound.h"
#include "core/sim/simulator.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

template <typename T>
const T& Pick(RandomStream& random, const std::vector<T>& from) {
  return from[random.NextBelow(static_cast<uint32_t>(from.size()))];
}

ClusterSpec OddCluster(RandomStream& random) {
  ClusterSpec cluster = RandomCluster(random, Pick<int>(random, {2, 4, 8}));
  for (Link* link : {cluster.mutable_intra_node(), cluster.mutable_inter_node()}) {
    link->set_latency_ns(Pick<int64_t>(random, {0, 1, 1000, kMaxNanos / 1000, kMaxNanos}));
    link->set_bandwidth_bytes_per_s(
        Pick<double>(random, {kMinBandwidth, 1e6, 1e12, kMaxBandwidth}));
  }
  cluster.set_contention_factor(Pick<double>(random, {0, 1, 1.5, 100, kMaxContention}));
  cluster.set_memory_bytes_per_device(
      Pick<int64_t>(random, {0, 0, 1, 100000, kMaxBytes - 1, kMaxBytes}));
  if (random.NextBelow(2) == 0) {
    DeviceClass* odd = cluster.add_device_classes();
    odd->set_name("odd");
    odd->set_num_devices(1);
    odd->set_speed(Pick<double>(random, {1e-3, 0.5, 1, 1000}));
  }
  return cluster;
}

TEST(OddClustersTest, PlansVerifyAndRespectTheirBoundOrAreRefused) {
  RandomStream random(91, 0, 0, RandomPurpose::kTest);
  int planned = 0, refused = 0, no_room = 0;
  for (int round = 0; round < 300; ++round) {
    const ModelProfile profile = RandomProfile(random);
    const ClusterSpec cluster = OddCluster(random);
    Strategy strategy;
    strategy.set_name("odd");
    strategy.set_schedule(Pick<std::string>(random, {"1f1b", "zb-v", "v-half", "zb-auto|wave"}));
    strategy.set_partitioner("balanced");
    strategy.set_frozen(Pick<std::string>(random, {"fill", "first"}));
    strategy.set_sync("bucketed");
    strategy.set_cross_iteration(true);
    PlanOptions options;
    options.global_batch = Pick<int>(random, {8, 64});
    options.simulation_budget = 20000;
    const absl::StatusOr<PlanResult> result = MakePlan(strategy, profile, cluster, options);
    if (!result.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(result.status()) ||
                  absl::IsResourceExhausted(result.status()))
          << result.status();
      ++(absl::IsResourceExhausted(result.status()) ? no_room : refused);
      continue;
    }
    ++planned;
    const CostModel cost = *CostModel::Create(profile, cluster);
    EXPECT_TRUE(VerifyPlan(result->plan, cost).ok()) << VerifyPlan(result->plan, cost);
    EXPECT_GE(*SteadyStepTime(result->plan, cost), StepLowerBound(result->plan, cost).bound_ns)
        << cluster.ShortDebugString();
    EXPECT_GT(result->plan.prediction().step_ns(), 0);
  }
  EXPECT_GT(planned, 100);
  EXPECT_GT(no_room, 20);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace dpipe
