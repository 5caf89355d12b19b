#include "models/folder/scheduler_file.h"

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

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
