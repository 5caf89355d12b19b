#include "models/diffusion/flow_schedule.h"

#include <cmath>

#include "core/base/files/file.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::diffusion {
namespace {

using Json = nlohmann::json;

Json Cases() { return Json::parse(*ReadFile("models/diffusion/testdata/flow.json"))["cases"]; }

FlowSchedule ScheduleOf(const Json& golden) {
  const auto options = ParseFlowScheduleConfig(golden["text"].get<std::string>());
  EXPECT_TRUE(options.ok()) << options.status();
  return *FlowSchedule::Create(*options);
}

// diffusers computes levels in fp32, or in double and rounds them to it.
constexpr double kLevelError = 3e-7;

TEST(FlowScheduleTest, LevelsMatchDiffusers) {
  for (const Json& golden : Cases()) {
    SCOPED_TRACE(golden["config"].dump());
    const FlowSchedule schedule = ScheduleOf(golden);
    for (const Json& at : golden["train_levels"]) {
      EXPECT_NEAR(schedule.train_levels()[at[0]], at[1].get<double>(), kLevelError);
    }
    for (const Json& sampling : golden["samplings"]) {
      const auto spacing = sampling["spacing"] == "full" ? FlowSchedule::Spacing::kFull
                                                         : FlowSchedule::Spacing::kTrained;
      std::optional<double> mu;
      if (!sampling["tokens"].is_null()) mu = schedule.Mu(sampling["tokens"]);
      const auto levels = schedule.SamplingLevels(sampling["steps"], spacing, mu);
      ASSERT_TRUE(levels.ok()) << levels.status();
      ASSERT_EQ(levels->size(), sampling["levels"].size());
      for (size_t i = 0; i < levels->size(); ++i) {
        EXPECT_NEAR((*levels)[i], sampling["levels"][i].get<double>(), kLevelError) << i;
      }
    }
  }
}

TEST(FlowScheduleTest, ConfigsAreWrittenAsDiffusersDoes) {
  for (const Json& golden : Cases()) {
    const std::string text = golden["text"];
    EXPECT_EQ(FlowScheduleConfigText(ScheduleOf(golden).options()), text);
    // From the options alone: all but the version.
    FlowScheduleOptions options = *ParseFlowScheduleConfig(golden["config"].dump());
    Json expected = Json::parse(text);
    expected.erase("_diffusers_version");
    EXPECT_EQ(Json::parse(FlowScheduleConfigText(options)), expected);
  }
}

// FLUX.1's shift grows from exp(0.5) at 256 tokens (256 px) to exp(1.15) at 4096 (1024 px).
TEST(FlowScheduleTest, DynamicShiftByHand) {
  FlowScheduleOptions options;
  options.use_dynamic_shifting = true;
  const FlowSchedule schedule = *FlowSchedule::Create(options);
  EXPECT_NEAR(schedule.Mu(256), 0.5, 1e-12);
  EXPECT_NEAR(schedule.Mu(4096), 1.15, 1e-12);
  EXPECT_NEAR(schedule.Mu(2176), 0.825, 1e-12);
  const auto levels = *schedule.SamplingLevels(2, FlowSchedule::Spacing::kFull, std::log(3.0));
  EXPECT_NEAR(levels[0], 1, 1e-12);
  EXPECT_NEAR(levels[1], 0.75, 1e-12);  // 3 * 0.5 / (1 + 2 * 0.5)
  EXPECT_EQ(levels[2], 0);
  EXPECT_EQ(schedule.train_levels()[250], 0.75);  // not shifted
}

TEST(FlowScheduleTest, ProblemsAreNamed) {
  const auto parse = [](const std::string& json) {
    return std::string(ParseFlowScheduleConfig(json).status().message());
  };
  EXPECT_EQ(parse(R"({"_class_name": "DDIMScheduler"})"),
            "scheduler_config.json: '_class_name' is \"DDIMScheduler\"; only "
            "\"FlowMatchEulerDiscreteScheduler\" is supported");
  EXPECT_EQ(parse(R"({"use_karras_sigmas": true, "time_shift_type": "cubic"})"),
            "scheduler_config.json: 'time_shift_type' is \"cubic\", supported: \"exponential\", "
            "\"linear\"; 'use_karras_sigmas' is true, supported: false, null");
  const auto create = [](auto change) {
    FlowScheduleOptions options;
    change(&options);
    return std::string(FlowSchedule::Create(options).status().message());
  };
  EXPECT_EQ(create([](FlowScheduleOptions* o) { o->shift = 0; }),
            "shift is 0; expected a number above 0");
  EXPECT_EQ(create([](FlowScheduleOptions* o) { o->base_image_seq_len = 5000; }),
            "base_image_seq_len is 5000; expected less than max_image_seq_len, 4096");
  EXPECT_EQ(create([](FlowScheduleOptions* o) { o->shift_terminal = 1; }),
            "shift_terminal is 1; expected a number between 0 and 1");
  const FlowSchedule plain = *FlowSchedule::Create({});
  using Spacing = FlowSchedule::Spacing;
  EXPECT_EQ(plain.SamplingLevels(0, Spacing::kFull).status().message(), "0 steps; use at least 1");
  EXPECT_EQ(plain.SamplingLevels(4, Spacing::kFull, 0.5).status().message(),
            "mu is given, but the scheduler does not shift dynamically");
  FlowScheduleOptions dynamic;
  dynamic.use_dynamic_shifting = true;
  EXPECT_EQ(FlowSchedule::Create(dynamic)->SamplingLevels(4, Spacing::kFull).status().message(),
            "the scheduler shifts dynamically and needs mu");
}

}  // namespace
}  // namespace dpipe::diffusion
