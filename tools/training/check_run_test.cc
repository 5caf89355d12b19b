#include "tools/training/check_run.h"

#include "core/base/bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TrainerOptions Options() {
  TrainerOptions options;
  options.model_out = "/o/m/model";
  options.best_out = "/o/m/best";
  options.checkpoints.folder = "/o/m/checkpoints";
  options.config_path = "/o/m/config.textproto";
  options.kept_profile_path = "/o/m/profile.textproto";
  options.kept_cluster_path = "/o/m/cluster.textproto";
  options.log_path = "/l/log";
  options.sample_folder = "/o/m/samples";
  options.faults.dump_folder = "/o/m/bad_batches";
  options.setup.data.quarantine_path = "/o/m/quarantine.jsonl";
  return options;
}

TEST(CheckRunTest, NamesPathsThatARunMayWrite) {
  TrainerOptions options = Options();
  EXPECT_THAT(WrittenBy(options),
              ElementsAre("/l/log", "/o/m/bad_batches/", "/o/m/checkpoints/",
                          "/o/m/cluster.textproto", "/o/m/config.textproto", "/o/m/model/",
                          "/o/m/profile.textproto", "/o/m/quarantine.jsonl", "/o/m/samples/"));
  options.sample_at_end = false;
  options.faults.num_dumps = 0;
  options.keep_best = true;
  options.mllog_path = "/o/m/mllog";
  options.tensorboard_folder = "/o/m/tensorboard";
  options.setup.cache_folder = "/cache";
  EXPECT_THAT(WrittenBy(options),
              ElementsAre("/l/log", "/o/m/best/", "/o/m/checkpoints/", "/o/m/cluster.textproto",
                          "/o/m/config.textproto", "/o/m/mllog", "/o/m/model/",
                          "/o/m/profile.textproto", "/o/m/quarantine.jsonl", "/o/m/tensorboard/"));
  options.strategy.set_frozen("cached");
  EXPECT_THAT(WrittenBy(options), ::testing::Contains("/cache/"));
}

TEST(CheckRunTest, AnOutlineHasStepsMemoryDiskAndFiles) {
  RunOutline outline;
  outline.num_steps = 400;
  outline.global_batch = 8;
  outline.epochs = 0.78125;
  outline.device_bytes = {3 * kMiB, 5 * kMiB};
  outline.disk.model_bytes = kMiB;
  outline.place = {"/o", kGiB};
  outline.writes = {"/o/m/samples/", "/o/m/"};
  const std::string text = OutlineText(outline);
  EXPECT_THAT(text, HasSubstr("Steps:    400 steps of 8 images, 0.78 epochs\n"));
  EXPECT_THAT(text, HasSubstr("Memory:   predicted peak: device 0 3.0 MiB, device 1 5.0"));
  EXPECT_THAT(text, HasSubstr("1 model of 1.0 MiB"));
  EXPECT_THAT(text, HasSubstr("; /o has 1.0 GiB free\n"));
  EXPECT_THAT(text, HasSubstr("Writes:   /o/m/samples/\n          /o/m/\n"));
  EXPECT_THAT(text, Not(HasSubstr("Aside:")));
  EXPECT_THAT(text, HasSubstr("nothing was written"));
}

TEST(CheckRunTest, OutlineMarksEstimatesAndPathsSetAside) {
  RunOutline outline;
  outline.first_step = 100;
  outline.num_steps = 400;
  outline.is_estimated_length = true;
  outline.aside = {"/o/m", "/o/m/checkpoints"};
  const std::string text = OutlineText(outline);
  EXPECT_THAT(text,
              HasSubstr("Steps:    about 400 steps of 0 images, 0.00 epochs; 100 are done\n"));
  EXPECT_THAT(text, HasSubstr("Memory:   not predicted"));
  EXPECT_THAT(text, HasSubstr("an unknown amount free"));
  EXPECT_THAT(text, HasSubstr("earlier run to set aside: /o/m\n          /o/m/checkpoints\n"));
}

}  // namespace
}  // namespace dpipe::tools
