#include "models/folder/scheduler_changes.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

using Json = nlohmann::json;

// Shortened from version 1.5's.
constexpr char kPndm[] =
    R"({"_class_name": "PNDMScheduler", "beta_schedule": "scaled_linear", "steps_offset": 1})";

TEST(SchedulerChangesTest, NoChangesKeepTheText) {
  EXPECT_EQ(ChangedSchedulerConfig(kPndm, {}), kPndm);
  EXPECT_EQ(ChangedSchedulerConfig("[1]", {std::nullopt, true}), "[1]");
}

// As diffusers writes it for every DPMSolverMultistepScheduler.
TEST(SchedulerChangesTest, NumbersThatAreNotFiniteStay) {
  const std::string text = R"({"lambda_min_clipped": -Infinity})";
  const std::string changed = ChangedSchedulerConfig(text, {diffusion::PredictionType::kV, {}});
  EXPECT_EQ(
      changed,
      "{\n  \"lambda_min_clipped\": -Infinity,\n  \"prediction_type\": \"v_prediction\"\n}\n");
}

TEST(SchedulerChangesTest, TheIndexDeterminesTheClass) {
  EXPECT_EQ(SchedulerConfigOfClass(kPndm, "PNDMScheduler"), kPndm);
  EXPECT_EQ(SchedulerConfigOfClass(kPndm, ""), kPndm);
  EXPECT_EQ(SchedulerConfigOfClass("[1]", "DDIMScheduler"), "[1]");
  EXPECT_EQ(Json::parse(SchedulerConfigOfClass(R"({"steps_offset": 1})", "PNDMScheduler")),
            Json::parse(R"({"_class_name": "PNDMScheduler", "steps_offset": 1})"));
}

TEST(SchedulerChangesTest, PredictionTypeKeepsTheScheduler) {
  const Json json = Json::parse(
      ChangedSchedulerConfig(kPndm, {diffusion::PredictionType::kV, /*zero_terminal_snr=*/false}));
  EXPECT_EQ(json, Json::parse(R"({"_class_name": "PNDMScheduler", "steps_offset": 1,
      "beta_schedule": "scaled_linear", "prediction_type": "v_prediction",
      "rescale_betas_zero_snr": false})"));
}

TEST(SchedulerChangesTest, ZeroTerminalSnrNeedsASupportingScheduler) {
  const std::string text =
      ChangedSchedulerConfig(kPndm, {diffusion::PredictionType::kV, /*zero_terminal_snr=*/true});
  EXPECT_EQ(Json::parse(text), Json::parse(R"({"_class_name": "DDIMScheduler", "steps_offset": 1,
      "beta_schedule": "scaled_linear", "prediction_type": "v_prediction",
      "rescale_betas_zero_snr": true, "timestep_spacing": "trailing", "clip_sample": false})"));
  const Json index = Json::parse(WithSchedulerClass(
      R"({"_class_name": "P", "scheduler": ["diffusers", "PNDMScheduler"], "unet": ["a", "b"]})",
      text));
  EXPECT_EQ(index, Json::parse(R"({"_class_name": "P", "unet": ["a", "b"],
                                   "scheduler": ["diffusers", "DDIMScheduler"]})"));
}

TEST(SchedulerChangesTest, SupportingSchedulersAreKept) {
  const Json json = Json::parse(ChangedSchedulerConfig(
      R"({"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "leading"})",
      {std::nullopt, /*zero_terminal_snr=*/true}));
  EXPECT_EQ(json, Json::parse(R"({"_class_name": "EulerDiscreteScheduler",
      "timestep_spacing": "leading", "rescale_betas_zero_snr": true})"));
}

}  // namespace
}  // namespace dpipe::models
