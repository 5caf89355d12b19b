// Profiles as a user does: every kind of model on the CPU. The profiles can be used for planning.
#include <filesystem>
#include <string>
#include <vector>

#include "core/cost/cost_model.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/profile.pb.h"
#include "core/schedule/file_formats/plan_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using testlib::ProgramOutcome;
using testlib::RunProgram;

class ProfileToolTest : public ::testing::Test {
 protected:
  ProfileToolTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // Returns a valid profile of one timed pass on one core.
  ModelProfile Profile(std::vector<std::string> flags) const {
    flags.insert(flags.end(), {"--backend=cpu", "--passes=1", "--local_batches=1,2",
                               "--frozen_quantum=2", "--output=" + Path("profile.textproto"),
                               "--cluster=" + Path("cluster.textproto")});
    const ProgramOutcome run = RunProgram("tools/profile", flags, /*deadline_s=*/250);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("samples/s"));
    ModelProfile profile;
    EXPECT_TRUE(ReadTextProto(Path("profile.textproto"), &profile).ok());
    ClusterSpec cluster;
    EXPECT_TRUE(ReadTextProto(Path("cluster.textproto"), &cluster).ok());
    const auto cost = CostModel::Create(profile, cluster);
    EXPECT_TRUE(cost.ok()) << cost.status();
    return profile;
  }

  static int NumBackbones(const ModelProfile& profile) {
    int count = 0;
    for (const ComponentProfile& c : profile.components()) count += c.is_backbone() ? 1 : 0;
    return count;
  }

  const std::string folder_ = ::testing::TempDir() + "/profile_tool";
};

TEST_F(ProfileToolTest, StableDiffusionIsTimedLayerByLayerAndCanBePlanned) {
  const ModelProfile profile = Profile({"--model=tiny_sd"});
  EXPECT_EQ(NumBackbones(profile), 1);
  EXPECT_EQ(profile.components_size(), 3);
  for (const ComponentProfile& component : profile.components()) {
    for (const LayerProfile& layer : component.layers()) {
      ASSERT_EQ(layer.timings_size(), component.is_backbone() ? 2 : 1) << layer.name();
      EXPECT_GT(layer.timings(0).forward_ns(), 0) << layer.name();
    }
  }
  EXPECT_THAT(profile.provenance(), HasSubstr("; before: "));
  EXPECT_THAT(profile.provenance(), HasSubstr("; after: "));
  const ProgramOutcome plan = RunProgram(
      "tools/plan",
      {"--profile=" + Path("profile.textproto"), "--cluster=" + Path("cluster.textproto"),
       "--strategy=data_parallel", "--global_batch=2", "--output=" + Path("plan.textproto")});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
}

TEST_F(ProfileToolTest, ControlNetAndCascadesAreTimed) {
  EXPECT_EQ(NumBackbones(Profile({"--model=tiny_sd", "--kind=controlnet"})), 1);
  EXPECT_EQ(NumBackbones(Profile({"--model=tiny_cdm"})), 2);
}

TEST_F(ProfileToolTest, HelpBeginsWithTheMostUsedFlags) {
  const ProgramOutcome help = RunProgram("tools/profile", {"--help"});
  EXPECT_EQ(help.exit_code, 0) << help.err;
  EXPECT_THAT(help.out, HasSubstr("\n\nMost used:\n  --model=tiny_sd "));
}

TEST_F(ProfileToolTest, ImpossibleFlagsAreRefused) {
  const auto refusal = [](const std::vector<std::string>& flags) {
    const ProgramOutcome run = RunProgram("tools/profile", flags);
    EXPECT_NE(run.exit_code, 0) << run.out;
    return run.err;
  };
  EXPECT_THAT(refusal({"--model=no_such"}), HasSubstr("unknown --model=no_such"));
  EXPECT_THAT(refusal({"--local_batches=4,2"}),
              HasSubstr("--local_batches=4,2 must be positive and increasing"));
  EXPECT_THAT(refusal({"--backend=tpu"}), HasSubstr("backend"));
  EXPECT_THAT(refusal({"--output=profile.txt"}), HasSubstr("profile.txt"));
}

}  // namespace
}  // namespace dpipe
