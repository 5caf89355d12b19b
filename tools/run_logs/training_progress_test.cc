#include "tools/run_logs/training_progress.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {

namespace {

TEST(LongTaskTest, ShowsRateAndRemainingTimeOnceItTakesLong) {
  Nanos now = 0;
  std::string written;
  report::Progress::Options options;
  options.title = "train";
  options.clock = [&] { return now; };
  options.write = [&](absl::string_view text) { written += std::string(text); };
  LongTask task(options, "evaluating", /*num_images=*/100, nullptr);
  now = kNanosPerSecond;
  task.OnProgress(0.1);
  EXPECT_EQ(written, "");
  now = 5 * kNanosPerSecond;
  task.OnProgress(0.5);
  EXPECT_EQ(written, "[train] evaluating · 10 img/s · ETA 5 s\n");
  EXPECT_FALSE(task.should_stop());
}

TEST(LongTaskTest, IsStopped) {
  bool stop = false;
  report::Progress::Options options;
  LongTask task(options, "sampling", 1, [&] { return stop; });
  EXPECT_FALSE(task.should_stop());
  stop = true;
  EXPECT_TRUE(task.should_stop());
}

TEST(TrainingProgressTest, LineHasNormStepTimeMemoryAndShareOfPeak) {
  Nanos now = 0;
  std::string written;
  report::Progress::Options options;
  options.title = "train";
  options.log_interval_ns = 0;
  options.clock = [&] { return now; };
  options.write = [&](absl::string_view text) { written = std::string(text); };
  TrainingProgress progress(options, /*time_limit_ns=*/0);
  RunStart start;
  start.num_steps = 4;
  progress.OnStart(start);
  now = 10 * kNanosPerSecond;
  StepReport step;
  step.step = 2;
  step.mean_loss = 0.5;
  step.images_per_second = 142;
  step.seconds = 0.0412;
  step.grad_norm = 0.8125;
  step.peak_memory_bytes = {int64_t{1} << 29, int64_t{1} << 30};
  progress.OnStep(step);
  EXPECT_EQ(written,
            "[train] training epoch 0.00 · lr 0.00e+00 · step 2/4 · 142 img/s · loss 0.5000 · "
            "ETA 10 s · gradient norm 0.812 · 41.20 ms/step · peak 1.0 GiB per device\n");
  step.grad_norm = -1;
  step.peak_memory_bytes = {int64_t{1} << 30};
  step.share_of_peak = 0.376;
  progress.OnStep(step);
  EXPECT_THAT(written, ::testing::HasSubstr(
                           " · ETA 10 s · 41.20 ms/step · peak 1.0 GiB · 38 % of peak speed\n"));
}

}  // namespace

}  // namespace dpipe::tools
