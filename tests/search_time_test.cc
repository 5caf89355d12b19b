// Limits on the processor time of searches, with room for a busy machine. //bench:search_benchmark
// measures more sizes.
#include <ctime>
#include <string>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/planner/search.h"
#include "core/planner/testing/large_model.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule_traits.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// The limits are for a quiet machine. Beside other programs, which share caches and cores, the same
// search has taken up to 1.5 times the processor time; sanitizers take more.
constexpr double kBusyMachine = 2;

// `num_stages` 0: search.
void ExpectWithin(double limit_s, const std::string& strategy, const ModelProfile& model,
                  const ClusterSpec& cluster, int global_batch, int num_stages = 0) {
  PlanOptions options;
  options.global_batch = global_batch;
  options.num_stages = num_stages;
  const std::clock_t start = std::clock();
  const auto result = MakePlan(*FindStrategy(strategy), model, cluster, options);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(result.ok()) << strategy << ": " << result.status();
  EXPECT_LT(seconds, kBusyMachine * limit_s)
      << strategy << " of " << model.model() << ", " << num_stages << " stages";
}

TEST(SearchTimeTest, HundredLayersOn64Devices) {
  ExpectWithin(1, "opendiffusionpipe", LargeModel(100), LargeCluster(8, 8), 16 * 64);
}

TEST(SearchTimeTest, HundredLayersOn1024Devices) {
  ExpectWithin(10, "opendiffusionpipe", LargeModel(100), LargeCluster(128, 8), 16 * 1024);
}

TEST(SearchTimeTest, ThousandLayersOn64DevicesByEverySchedule) {
  const ModelProfile model = LargeModel(1000);
  for (const std::string& schedule : ScheduleNames()) {
    if (TraitsOf(schedule)->num_backbones > 1) continue;
    ExpectWithin(5, absl::StrCat("schedule=", schedule, ",frozen=fill"), model, LargeCluster(8, 8),
                 16 * 64);
  }
}

TEST(SearchTimeTest, TwoBackbonesOfThousandLayersOn64Devices) {
  const ModelProfile model = LargeModel(1000, /*num_backbones=*/2);
  for (const std::string schedule : {"cascaded", "cascaded-zb", "cascaded-v"}) {
    const std::string strategy = absl::StrCat("schedule=", schedule, ",frozen=fill");
    ExpectWithin(5, strategy, model, LargeCluster(8, 8), 16 * 64);
    ExpectWithin(15, strategy, model, LargeCluster(8, 8), 16 * 64, /*num_stages=*/16);
  }
  ExpectWithin(15, "schedule=cascaded,frozen=fill", model, LargeCluster(8, 8), 16 * 64,
               /*num_stages=*/64);
}

// Two backbones without frozen work are compared with every simpler strategy's own plan.
TEST(SearchTimeTest, TwoBackbonesOnSlowLinks) {
  ModelProfile model;
  ClusterSpec cluster;
  ASSERT_TRUE(
      ReadTextProto("data/profiles/modelled/a100_80gb/cdm_lsun_256.textproto", &model).ok());
  ASSERT_TRUE(ReadTextProto("data/clusters/rtx4090_8x1_pcie.textproto", &cluster).ok());
  ExpectWithin(5, "opendiffusionpipe", model, cluster, 256);
}

}  // namespace
}  // namespace dpipe
