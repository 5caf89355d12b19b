#include "baselines/registry.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/planner/strategy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::IsSupersetOf;

TEST(RegistryTest, EveryNameFindsItself) {
  for (const std::string& name : StrategyNames()) {
    const absl::StatusOr<Strategy> strategy = FindStrategy(name);
    ASSERT_TRUE(strategy.ok()) << strategy.status();
    EXPECT_EQ(strategy->name(), name);
  }
}

TEST(RegistryTest, SortedByFamily) {
  const std::vector<std::string> names = StrategyNames();
  EXPECT_EQ(names.front(), "data_parallel");
  EXPECT_EQ(names.back(), "xpipe");
  EXPECT_EQ(ExactStrategyNames().back(), "offline_cache");
  std::vector<std::string> filling;
  for (const NamedStrategy& named : NamedStrategies()) {
    EXPECT_FALSE(named.summary.empty()) << named.strategy.name();
    if (named.family == StrategyFamily::kFilling) filling.push_back(named.strategy.name());
  }
  // Other strategies may join them, as CONTRIBUTING.md's example does.
  EXPECT_THAT(filling, IsSupersetOf({"diffusionpipe", "diffusionpipe-paper", "opendiffusionpipe"}));
  EXPECT_TRUE(std::is_sorted(
      NamedStrategies().begin(), NamedStrategies().end(),
      [](const NamedStrategy& a, const NamedStrategy& b) { return a.family < b.family; }));
}

// Only what a strategy is defined by takes an option away.
TEST(RegistryTest, EveryNamedStrategyMayRecomputeAndShard) {
  const std::map<std::string, std::string> own_sharding = {
      {"data_parallel", "none"}, {"zero1", "zero1"}, {"zero3", "zero3"}, {"zeropp", "zero3"}};
  for (const NamedStrategy& named : NamedStrategies()) {
    const Strategy& strategy = named.strategy;
    const std::string& name = strategy.name();
    SCOPED_TRACE(name);
    if (name == "diffusionpipe-paper") {  // the published algorithm has none of them
      EXPECT_EQ(strategy.recompute(), "none");
      EXPECT_EQ(strategy.shard(), "none");
      continue;
    }
    // Predicted weights differ between a pass and its repetition.
    EXPECT_EQ(strategy.recompute(), strategy.weights() == "predicted" ? "none" : "auto");
    const auto own = own_sharding.find(name);
    EXPECT_EQ(strategy.shard(), own == own_sharding.end() ? "none|zero1" : own->second);
  }
  const Strategy composed = *FindStrategy("schedule=1f1b");
  EXPECT_EQ(composed.recompute(), "none");
  EXPECT_EQ(composed.shard(), "none");
}

TEST(RegistryTest, FrozenWeightsMayBeKeptWhole) {
  for (const NamedStrategy& named : NamedStrategies()) {
    SCOPED_TRACE(named.strategy.name());
    Strategy strategy = named.strategy;
    KeepFrozenWeightsWhole(strategy);
    EXPECT_TRUE(CheckStrategy(strategy).ok());
    EXPECT_EQ(strategy.shard(), named.strategy.shard());
    EXPECT_EQ(strategy.schedule().find("/zero3"), std::string::npos) << strategy.schedule();
  }
  Strategy any = *FindStrategy("data_parallel,shard=none|zero1|zero3");
  KeepFrozenWeightsWhole(any);
  EXPECT_EQ(any.shard(), "none|zero1");
  Strategy ours = *FindStrategy("opendiffusionpipe");
  KeepFrozenWeightsWhole(ours);
  EXPECT_NE(ours.schedule().find("wave/skip_aware|1f1b/dapple"), std::string::npos);
  EXPECT_NE(ours.schedule().find("|single|"), std::string::npos);
}

TEST(RegistryTest, CompositionsAndAblations) {
  const Strategy composed = *FindStrategy("schedule=gpipe,frozen=fill");
  EXPECT_EQ(composed.name(), "schedule=gpipe,frozen=fill");
  EXPECT_EQ(composed.schedule(), "gpipe");
  EXPECT_EQ(composed.frozen(), "fill");
  EXPECT_EQ(composed.partitioner(), "balanced");
  EXPECT_TRUE(composed.partial_batch());
  const Strategy ablation = *FindStrategy("diffusionpipe,partial_batch=false");
  EXPECT_EQ(ablation.schedule(), "1f1b|cascaded");
  EXPECT_FALSE(ablation.partial_batch());
  EXPECT_TRUE(ablation.cross_iteration());
}

TEST(RegistryTest, PublishedFilling) {
  const Strategy preset = *FindStrategy("diffusionpipe-paper");
  EXPECT_EQ(preset.fill_rule(), "published");
  EXPECT_EQ(preset.min_bubble_us(), 10000);
  const Strategy any = *FindStrategy("diffusionpipe-paper,min_bubble_us=0,local_batches=");
  EXPECT_EQ(any.min_bubble_us(), 0);
  EXPECT_EQ(any.local_batches(), "");
  EXPECT_EQ(FindStrategy("diffusionpipe,fill_rule=paper").status().message(),
            "strategy: fill_rule='paper' is not one of own, published; bazel run //tools:plan -- "
            "--list shows all");
  EXPECT_EQ(FindStrategy("diffusionpipe-paper,local_batches=4|x").status().message(),
            "strategy: local_batches='4|x': 'x' is not a positive integer; try 4|8|16");
}

TEST(RegistryTest, ErrorsListValidNames) {
  const std::string unknown(FindStrategy("gpip").status().message());
  EXPECT_EQ(unknown.find("unknown strategy 'gpip'; there are data_parallel, "), 0) << unknown;
  EXPECT_NE(unknown.find("--list shows all), or compositions such as 'schedule=1f1b,frozen=fill'"),
            std::string::npos)
      << unknown;
  const std::string schedule(FindStrategy("schedule=zb").status().message());
  EXPECT_EQ(schedule.find("strategy: schedule='zb' is not one of 1f1b, "), 0) << schedule;
  EXPECT_EQ(
      FindStrategy("gpipe,stages=3").status().message(),
      "strategy: 'stages=3' does not set a field of a strategy, such as schedule=1f1b; bazel run "
      "//tools:plan -- --list shows all");
  EXPECT_EQ(FindStrategy("gpipe,partial_batch=maybe").status().message(),
            "strategy: partial_batch='maybe' is not one of true, false");
  EXPECT_EQ(FindStrategy("").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace dpipe
