#include "bench/emulation/emulation_case.h"

#include <cmath>
#include <string>

#include "bench/emulation/emulation_report.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

class EmulationCaseTest : public ::testing::Test {
 protected:
  EmulationCaseTest() {
    EXPECT_TRUE(
        ReadTextProto("data/profiles/modelled/a100_80gb/stable_diffusion_v2_1_512.textproto",
                      &profile_)
            .ok());
    EXPECT_TRUE(ReadTextProto("data/clusters/a100_8x1.textproto", &cluster_).ok());
  }
  ModelProfile profile_;
  ClusterSpec cluster_;
};

TEST_F(EmulationCaseTest, StrategiesTakeAsLongAsSimulatedOnFourAndEightDevices) {
  for (int devices : {4, 8}) {
    cluster_.set_devices_per_node(devices);
    for (const std::string strategy :
         {"data_parallel", "zero3", "1f1b", "zb-v", "diffusionpipe", "diffusionpipe-paper",
          "diffusionpipe-paper,min_bubble_us=0,local_batches=,partitioner=uniform", "chimera"}) {
      const auto result = RunEmulationCase(profile_, cluster_, strategy, 8 * devices, {});
      ASSERT_TRUE(result.ok()) << strategy << ": " << result.status();
      ASSERT_TRUE(result->ran()) << strategy << ": " << result->refusal;
      EXPECT_LT(std::abs(result->difference()), 0.01)
          << strategy << " on " << devices << " devices, first of all " << result->first;
      EXPECT_TRUE(result->valid()) << strategy << ": losses differ by " << result->loss_error;
      EXPECT_EQ(result->num_devices, devices);
    }
  }
}

// Over two nodes, reductions are slow enough for buckets to wait for each other.
TEST_F(EmulationCaseTest, ShardedGradientsAreReducedOneBucketAfterAnother) {
  cluster_.set_num_nodes(2);
  const auto result = RunEmulationCase(profile_, cluster_, "zero1", 256, {});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->ran()) << result->refusal;
  EXPECT_LT(std::abs(result->difference()), 0.001) << result->first;
  EXPECT_TRUE(result->valid()) << result->loss_error;
}

TEST_F(EmulationCaseTest, AStrategyWithoutAPlanIsARefusal) {
  cluster_.set_memory_bytes_per_device(1000000000);
  const auto result = RunEmulationCase(profile_, cluster_, "data_parallel", 64, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->ran());
  EXPECT_EQ(result->strategy, "data_parallel");
}

EmulationResult Result(Nanos simulated_ns, Nanos emulated_ns) {
  EmulationResult result;
  result.simulated_step_ns = simulated_ns;
  result.emulated_step_ns = emulated_ns;
  return result;
}

TEST(EmulationReportTest, SummarizesByMedianAndWorst) {
  std::vector<EmulationResult> results = {Result(1000, 1010), Result(1000, 960), Result(1000, 1002),
                                          Result(1000, 1000)};
  results[2].loss_error = 1;
  EmulationResult refused;
  refused.refusal = "no room";
  results.push_back(refused);
  const EmulationSummary summary = Summarize(results);
  EXPECT_EQ(summary.num_run, 4);
  EXPECT_EQ(summary.num_invalid, 1);
  EXPECT_NEAR(summary.median, 0.006, 1e-12);
  EXPECT_NEAR(summary.worst, 0.04, 1e-12);
  EXPECT_EQ(summary.worst_result, &results[1]);
}

}  // namespace
}  // namespace dpipe::bench
