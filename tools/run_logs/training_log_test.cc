#include "tools/run_logs/training_log.h"

#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/base/files/file.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::tools {
namespace {

TEST(RunningMeanTest, ByHand) {
  RunningMean mean(0.5);
  EXPECT_EQ(mean.mean(), 0);
  mean.Add(4);
  EXPECT_DOUBLE_EQ(mean.mean(), 4);
  mean.Add(1);
  EXPECT_DOUBLE_EQ(mean.mean(), (0.5 * 4 + 1) / 1.5);
  mean.Add(2);
  EXPECT_DOUBLE_EQ(mean.mean(), (0.25 * 4 + 0.5 * 1 + 2) / 1.75);
}

StepReport Step(int64_t step, double loss) {
  StepReport report;
  report.step = step;
  report.loss = loss;
  report.mean_loss = loss + 1;
  report.grad_norm = 0.5;
  report.seconds = 0.25;
  report.peak_memory_bytes = {1000, 2000 * step};
  report.learning_rate = 1e-3 * step;
  report.images_per_second = 99.0;
  report.elapsed_s = 0.375 * step;
  report.epoch = 0.5 * step;
  return report;
}

TEST(TrainingLogTest, OneJsonObjectPerLine) {
  const std::string path = testing::TempDir() + "/new_folder/log.jsonl";
  for (int run = 0; run < 2; ++run) {  // the second run overwrites the first
    const auto log = TrainingLog::Create(path);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->OnStep(Step(1, 1.25));
    (*log)->OnStep(Step(2, 1.0));
    ASSERT_TRUE((*log)->Flush().ok());
    const std::vector<std::string> lines = absl::StrSplit(ReadFile(path).value(), '\n');
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[2], "");
    const auto json = nlohmann::json::parse(lines[1]);
    EXPECT_EQ(json["step"], 2);
    EXPECT_EQ(json["loss"], 1.0);
    EXPECT_EQ(json["lr"], 2e-3);
    EXPECT_EQ(json["images_per_second"], 99.0);
    EXPECT_EQ(json["elapsed_s"], 0.75);
    EXPECT_EQ(json["epoch"], 1.0);
    EXPECT_EQ(json["mean_loss"], 2.0) << "the loss that is printed";
    EXPECT_EQ(json["grad_norm"], 0.5);
    EXPECT_EQ(json["step_s"], 0.25);
    EXPECT_EQ(json["peak_memory_bytes"], std::vector<int64_t>({1000, 4000}));
    EXPECT_FALSE(json.contains("share_of_peak"));
  }
}

// A norm that no rank knows is left out; one that is not finite stays in sight.
TEST(TrainingLogTest, NormsAndSharesOfThePeakAreOptional) {
  const std::string path = testing::TempDir() + "/optional.jsonl";
  const auto log = TrainingLog::Create(path);
  ASSERT_TRUE(log.ok()) << log.status();
  StepReport step = Step(1, 1.25);
  step.grad_norm = -1;
  step.share_of_peak = 0.375;
  (*log)->OnStep(step);
  step.grad_norm = std::nan("");
  (*log)->OnStep(step);
  ASSERT_TRUE((*log)->Flush().ok());
  const std::vector<std::string> lines = absl::StrSplit(ReadFile(path).value(), '\n');
  EXPECT_FALSE(nlohmann::json::parse(lines[0]).contains("grad_norm"));
  EXPECT_EQ(nlohmann::json::parse(lines[0])["share_of_peak"], 0.375);
  EXPECT_TRUE(nlohmann::json::parse(lines[1])["grad_norm"].is_null());
}

TEST(TrainingLogTest, EvaluationsAndSamplesHaveLinesOfTheirOwn) {
  const std::string path = testing::TempDir() + "/kinds.jsonl";
  const auto log = TrainingLog::Create(path);
  ASSERT_TRUE(log.ok()) << log.status();
  EvaluationReport evaluation;
  evaluation.step = 3;
  evaluation.weights = "average";
  evaluation.quantiles = {0.25, 0.75};
  evaluation.losses = {1.5, 0.5};
  evaluation.mean = 1.0;
  (*log)->OnEvaluation(evaluation);
  (*log)->OnSamples({4, "grid.png", nullptr});
  ASSERT_TRUE((*log)->Flush().ok());
  EXPECT_EQ(ReadFile(path).value(),
            "{\"step\":3,\"eval_loss\":1.0,\"weights\":\"average\",\"quantiles\":[0.25,0.75],"
            "\"eval_losses\":[1.5,0.5]}\n{\"step\":4,\"samples\":\"grid.png\"}\n");
}

// Drops lines of steps that will be repeated, and a line that a kill cut off.
TEST(TrainingLogTest, ResumesAfterAStep) {
  const std::string path = testing::TempDir() + "/resumed.jsonl";
  ASSERT_TRUE(WriteFileAtomically(path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"st").ok());
  const auto log = TrainingLog::Create(path, /*first_step=*/2);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->OnSamples({3, "x", nullptr});
  ASSERT_TRUE((*log)->Flush().ok());
  EXPECT_EQ(ReadFile(path).value(), "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"samples\":\"x\"}\n");
}

// The system's limit on file sizes ends a write halfway, as a full disk does.
TEST(TrainingLogTest, LinesWaitWhileTheDiskIsFull) {
  const std::string path = testing::TempDir() + "/full.jsonl";
  const auto log = TrainingLog::Create(path);
  ASSERT_TRUE(log.ok()) << log.status();
  signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 5;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  (*log)->OnSamples({1, "a", nullptr});
  const absl::Status status = (*log)->Flush();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  (*log)->OnSamples({2, "b", nullptr});
  EXPECT_TRUE((*log)->Flush().ok());
  EXPECT_EQ(ReadFile(path).value(),
            "{\"step\":1,\"samples\":\"a\"}\n{\"step\":2,\"samples\":\"b\"}\n");
}

TEST(TrainingLogTest, NamesTheFileThatCannotBeWritten) {
  const auto log = TrainingLog::Create(testing::TempDir());  // a folder
  ASSERT_FALSE(log.ok());
  EXPECT_NE(log.status().message().find(testing::TempDir()), std::string::npos);
}

}  // namespace
}  // namespace dpipe::tools
