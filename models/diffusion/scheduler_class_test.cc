#include "models/diffusion/scheduler_class.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SchedulerClassTest, OtherProcessesAreRefusedByName) {
  for (const char* name : {"DDIMScheduler", "PNDMScheduler", "EulerDiscreteScheduler",
                           "UniPCMultistepScheduler", "LMSDiscreteScheduler"}) {
    EXPECT_TRUE(CheckSchedulerClass(name).ok()) << name;
  }
  for (const char* name : {"FlowMatchEulerDiscreteScheduler", "EDMEulerScheduler",
                           "ScoreSdeVeScheduler", "CMStochasticIterativeScheduler", ""}) {
    EXPECT_THAT(std::string(CheckSchedulerClass(name).message()),
                HasSubstr(std::string("the scheduler is a ") + name));
  }
}

TEST(SchedulerClassTest, ConfigsOfOtherProcessesAreRefused) {
  EXPECT_TRUE(ParseSchedulerConfig(R"({"_class_name": "PNDMScheduler"})").ok());
  EXPECT_TRUE(ParseSchedulerConfig(R"({"use_flow_sigmas": false})").ok());
  EXPECT_THAT(
      std::string(ParseSchedulerConfig(
                      R"({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0})")
                      .status()
                      .message()),
      HasSubstr("scheduler_config.json: the scheduler is a FlowMatchEulerDiscreteScheduler"));
  EXPECT_FALSE(ParseSchedulerConfig(R"({"_class_name": 3})").ok());
  EXPECT_EQ(ParseSchedulerConfig(R"({"use_flow_sigmas": true})").status().message(),
            "scheduler_config.json: use_flow_sigmas is true; expected false");
}

TEST(SchedulerClassTest, KeysThatASamplerDoesNotFollowAreNamed) {
  constexpr char kConfig[] =
      R"({"use_karras_sigmas": true, "use_lu_lambdas": true, "solver_order": 3, "variance_type":
      "fixed_large", "solver_type": "midpoint", "final_sigmas_type": "sigma_min"})";
  EXPECT_THAT(KeysNotFollowed(kConfig, SamplerKind::kDpmSolver),
              ElementsAre("final_sigmas_type is \"sigma_min\"", "solver_order is 3",
                          "use_lu_lambdas is true"));
  EXPECT_THAT(KeysNotFollowed(kConfig, SamplerKind::kDdpm),
              ElementsAre("variance_type is \"fixed_large\""));
  EXPECT_THAT(KeysNotFollowed(kConfig, SamplerKind::kDdim), IsEmpty());
  EXPECT_THAT(KeysNotFollowed(R"({"variance_type": null})", SamplerKind::kDdpm), IsEmpty());
  EXPECT_THAT(KeysNotFollowed("[]", SamplerKind::kDpmSolver), IsEmpty());
}

}  // namespace
}  // namespace dpipe::diffusion
