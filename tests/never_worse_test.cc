// Checks on checked-in profiles that our strategy, whose schedules include DiffusionPipe's, is
// never worse.
#include <string>

#include "baselines/registry.h"
#include "core/planner/search.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

struct Case {
  std::string profile, cluster;
  int global_batch;
};

Nanos Step(const Case& c, const std::string& strategy) {
  ModelProfile profile;
  ClusterSpec cluster;
  EXPECT_TRUE(ReadTextProto("data/profiles/modelled/" + c.profile + ".textproto", &profile).ok());
  EXPECT_TRUE(ReadTextProto("data/clusters/" + c.cluster + ".textproto", &cluster).ok());
  PlanOptions options;
  options.global_batch = c.global_batch;
  options.simulation_budget = 200000;
  const absl::StatusOr<PlanResult> result =
      MakePlan(*FindStrategy(strategy), profile, cluster, options);
  EXPECT_TRUE(result.ok()) << c.profile << ": " << result.status();
  return result.ok() ? result->expected_step_ns : 0;
}

TEST(NeverWorseTest, OpenDiffusionPipeThanDiffusionPipe) {
  int better = 0;
  for (const Case& c : {Case{"a100_80gb/stable_diffusion_v2_1_512", "a100_8x8", 512},
                        Case{"a100_80gb/controlnet_v1_0_512", "a100_8x1", 64},
                        Case{"a100_80gb/cdm_lsun_256", "a100_8x2", 256},
                        Case{"h100_sxm/flux_1024", "h100_8x1", 64}}) {
    const Nanos ours = Step(c, "opendiffusionpipe"), theirs = Step(c, "diffusionpipe");
    EXPECT_LE(ours, theirs) << c.profile << " on " << c.cluster;
    better += ours < theirs;
  }
  EXPECT_GE(better, 2);
}

}  // namespace
}  // namespace dpipe
