#include "bench/comparison/on_clusters.h"

#include "core/report/results/results.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OnClustersTest, PipelinesAreRelativeToTheBestDataParallelism) {
  OnClustersOptions options;
  options.model = "stable_diffusion_v2_1_512";
  options.device_batch = 2;
  options.strategies = {"data_parallel", "1f1b", "diffusionpipe"};
  options.clusters = {"rtx4090_2x1_10gbe"};
  const auto results = SimulateOnClusters(options);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->cases_size(), 1);
  const CaseResult& one = results->cases(0);
  EXPECT_EQ(one.num_devices(), 2);
  EXPECT_EQ(one.global_batch(), 4);
  ASSERT_EQ(one.strategies_size(), 5) << "zero1 and zero3 are always there";
  // Over 10 Gb/s, exchanging gradients takes longer than the bubbles of a pipeline.
  const StrategyResult* pipeline = report::FindStrategyResult(one, "diffusionpipe");
  for (const char* rival : {"data_parallel", "zero1", "zero3"}) {
    const StrategyResult* result = report::FindStrategyResult(one, rival);
    if (!report::Counts(*result)) continue;
    EXPECT_GT(pipeline->images_per_second(0), 1.5 * result->images_per_second(0)) << rival;
  }
  EXPECT_THAT(OnClustersText(*results),
              AllOf(HasSubstr("Simulated, nothing measured: stable_diffusion_v2_1_512, 2 images"),
                    HasSubstr("rtx4090_2x1_10gbe"), HasSubstr("fastest without pipeline"),
                    HasSubstr("x\n")));
}

TEST(OnClustersTest, RatiosAreOfTheBestRivalAndMissingPlansAreDashes) {
  Results results;
  CaseResult& one = *results.add_cases();
  (*one.mutable_flags())["cluster"] = "data/clusters/small.textproto";
  one.set_num_devices(2);
  one.set_global_batch(16);
  const auto add = [&](const char* strategy, double images_per_second) {
    StrategyResult& result = *one.add_strategies();
    result.set_strategy(strategy);
    if (images_per_second > 0) result.add_images_per_second(images_per_second);
  };
  add("data_parallel", 0);
  add("zero1", 100);
  add("zero3", 80);
  add("1f1b", 125);
  add("gpipe", 0);
  EXPECT_THAT(OnClustersText(results), AllOf(HasSubstr("fastest without pipeline  100, zero1"),
                                             HasSubstr("1.25x"), HasSubstr("8 images")));
  one.mutable_strategies(1)->clear_images_per_second();
  one.mutable_strategies(2)->clear_images_per_second();
  EXPECT_THAT(OnClustersText(results), HasSubstr("125.0 img/s"));
}

TEST(OnClustersTest, AnUnknownModelIsNamed) {
  OnClustersOptions options;
  options.model = "no_model";
  options.clusters = DefaultClusters();
  EXPECT_THAT(SimulateOnClusters(options).status().ToString(), HasSubstr("no_model.textproto"));
}

}  // namespace
}  // namespace dpipe::bench
