#include "baselines/registry.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(RegistryTest, EveryNameFindsItself) {
  EXPECT_EQ(StrategyNames(), (std::vector<std::string>{"data_parallel", "gpipe", "1f1b",
                                                       "diffusionpipe", "offline_cache"}));
  for (const std::string& name : StrategyNames()) {
    const absl::StatusOr<Strategy> strategy = FindStrategy(name);
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    EXPECT_EQ(strategy->name(), name);
  }
}

TEST(RegistryTest, CompositionsAndAblations) {
  const Strategy composed = *FindStrategy("schedule=gpipe,frozen=fill");
  EXPECT_EQ(composed.name(), "schedule=gpipe,frozen=fill");
  EXPECT_EQ(composed.schedule(), "gpipe");
  EXPECT_EQ(composed.frozen(), "fill");
  EXPECT_EQ(composed.partitioner(), "balanced");
  EXPECT_TRUE(composed.partial_batch());
  const Strategy ablation = *FindStrategy("diffusionpipe,partial_batch=false");
  EXPECT_EQ(ablation.schedule(), "1f1b");
  EXPECT_FALSE(ablation.partial_batch());
  EXPECT_TRUE(ablation.cross_iteration());
}

TEST(RegistryTest, ErrorsListWhatIsValid) {
  EXPECT_EQ(FindStrategy("gpip").status().message(),
            "unknown strategy 'gpip'; the known ones are data_parallel, gpipe, 1f1b, "
            "diffusionpipe, offline_cache, or compose one, for instance "
            "'schedule=1f1b,frozen=fill'");
  EXPECT_EQ(FindStrategy("schedule=zb").status().message(),
            "strategy: schedule='zb' is none of 1f1b, gpipe, single");
  EXPECT_EQ(FindStrategy("gpipe,stages=3").status().message(),
            "strategy: 'stages=3' sets none of partitioner, schedule, frozen, sync, partial_batch, "
            "cross_iteration");
  EXPECT_EQ(FindStrategy("gpipe,partial_batch=maybe").status().message(),
            "strategy: partial_batch='maybe' is none of true, false");
  EXPECT_EQ(FindStrategy("").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace dpipe
