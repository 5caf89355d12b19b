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

}  // namespace

}  // namespace dpipe::tools
