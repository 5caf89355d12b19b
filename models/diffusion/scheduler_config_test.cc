#include "models/diffusion/scheduler_config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/diffusion/noise_schedule.h"

namespace dpipe::diffusion {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace dpipe::diffusion
