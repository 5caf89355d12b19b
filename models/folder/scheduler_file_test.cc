#include "models/folder/scheduler_file.h"

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
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

using ::testing::HasSubstr;

class SchedulerFileTest : public ::testing::Test {
 protected:
  // Reads a folder with this scheduler in its index and in its configuration.
  absl::StatusOr<SchedulerFile> Read(const std::string& scheduler_class, const std::string& keys,
                                     const SchedulerChanges& changes = {}) {
    EXPECT_TRUE(MakeParentFolder(path_).ok());
    EXPECT_TRUE(
        WriteFileAtomically(folder_.File("model_index.json"),
                            R"({"_class_name": "FluxPipeline", "scheduler": ["diffusers", ")" +
                                scheduler_class + R"("]})")
            .ok());
    EXPECT_TRUE(
        WriteFileAtomically(path_, R"({"_class_name": ")" + scheduler_class + "\"" + keys + "}")
            .ok());
    DPIPE_ASSIGN_OR_RETURN(const PipelineFolder folder, PipelineFolder::Open(folder_.path()));
    return ReadSchedulerFile(folder, changes);
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.File("scheduler/scheduler_config.json");
};

TEST_F(SchedulerFileTest, FlowSchedule) {
  const auto file = Read(diffusion::kFlowSchedulerClass, R"(, "shift": 3.0)");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->note, "");
  const auto schedule = FlowScheduleOf(*file);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->options().shift, 3);
  EXPECT_NEAR(schedule->train_levels()[500], 0.75, 1e-12);  // 3 * 0.5 / (1 + 2 * 0.5)
  EXPECT_FALSE(NoiseScheduleOf(*file).ok());
}

TEST_F(SchedulerFileTest, FlowProblemsNameTheFile) {
  const auto error = [&](const std::string& scheduler_class, const std::string& keys) {
    const auto file = Read(scheduler_class, keys);
    EXPECT_TRUE(file.ok()) << file.status();
    return std::string(FlowScheduleOf(*file).status().message());
  };
  EXPECT_EQ(error(diffusion::kFlowSchedulerClass, R"(, "shift": -1)"),
            path_ + ": shift is -1; expected a number above 0");
  EXPECT_EQ(error(diffusion::kFlowSchedulerClass, R"(, "use_karras_sigmas": true)"),
            path_ + ": scheduler_config.json: 'use_karras_sigmas' is true, supported: false, null");
  EXPECT_EQ(error("DDIMScheduler", ""),
            path_ +
                ": scheduler_config.json: '_class_name' is \"DDIMScheduler\"; only "
                "\"FlowMatchEulerDiscreteScheduler\" is supported");
}

// Zero terminal SNR would otherwise turn it into a DDIMScheduler.
TEST_F(SchedulerFileTest, FlowHasNothingToChange) {
  SchedulerChanges snr, prediction;
  snr.zero_terminal_snr = true;
  prediction.prediction_type = diffusion::PredictionType::kV;
  for (const SchedulerChanges& changes : {snr, prediction}) {
    const auto file = Read(diffusion::kFlowSchedulerClass, "", changes);
    EXPECT_THAT(std::string(file.status().message()),
                HasSubstr("has no prediction type and no terminal SNR"));
    EXPECT_TRUE(Read("DDIMScheduler", "", changes).ok());
  }
}

}  // namespace
}  // namespace dpipe::models
