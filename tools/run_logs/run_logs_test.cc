// Tests the same small run in MLPerf's format and in TensorBoard's.
#include <filesystem>
#include <sstream>

#include "absl/strings/match.h"
#include "core/base/files/file.h"
#include "core/report/tensorboard/event.pb.h"
#include "core/report/tensorboard/event_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/run_logs/mllog.h"
#include "tools/run_logs/tensorboard_log.h"

namespace dpipe::tools {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

// 10 samples in batches of 4: epochs end within steps 3 and 5.
void PlayRun(TrainingObserver* observer) {
  RunStart start;
  start.model = "tiny";
  start.strategy = "gpipe";
  start.config = "seed: 1\nsteps: 5\n";
  start.global_batch = 4;
  start.training_samples = 10;
  start.evaluation_samples = 2;
  start.num_steps = 5;
  observer->OnStart(start);
  for (int step = 1; step <= 5; ++step) {
    StepReport report;
    report.step = step;
    report.loss = 1.0 / step;
    report.epoch = step * 4 / 10.0;
    report.grad_norm = 0.5 * step;
    report.seconds = 0.5;
    report.peak_memory_bytes = {1024, 2048};
    observer->OnStep(report);
  }
  EvaluationReport evaluation;
  evaluation.step = 5;
  evaluation.weights = "average";
  evaluation.quantiles = {0.25, 0.75};
  evaluation.losses = {0.5, 0.25};
  evaluation.mean = 0.375;
  evaluation.seconds = 0.5;
  observer->OnEvaluation(evaluation);
  const Image grid(6, 4);
  observer->OnSamples({5, "grid.png", &grid});
  RunEnd end;
  end.steps = 5;
  end.samples = 20;
  observer->OnEnd(end);
  EXPECT_TRUE(observer->Flush().ok());
}

TEST(MlLogTest, KeysComeInOrderWithTheirIntervals) {
  MlLog::Options options;
  options.path = ::testing::TempDir() + "/run.mllog";
  options.init_start_ms = 900;
  int64_t now = 1000;
  options.clock = [&now] { return ++now; };
  const auto log = MlLog::Create(options);
  ASSERT_TRUE(log.ok()) << log.status();
  PlayRun(log->get());
  std::vector<std::string> keys;
  std::map<std::string, std::vector<json>> by_key;
  std::istringstream lines(*ReadFile(options.path));
  for (std::string line; std::getline(lines, line);) {
    ASSERT_TRUE(absl::StartsWith(line, ":::MLLOG {")) << line;
    const json event = json::parse(line.substr(9));
    EXPECT_EQ(event["namespace"], "");
    keys.push_back(event["key"]);
    by_key[keys.back()].push_back(event);
  }
  EXPECT_THAT(
      keys, ElementsAre("init_start", "seed", "global_batch_size", "train_samples", "eval_samples",
                        "opt_name", "opt_base_learning_rate", "strategy", "init_stop", "run_start",
                        "epoch_start", "epoch_stop", "epoch_start", "epoch_stop", "epoch_start",
                        "eval_start", "eval_error", "eval_stop", "epoch_stop", "run_stop"));
  EXPECT_EQ(by_key["init_start"][0]["time_ms"], 900);
  EXPECT_EQ(by_key["init_start"][0]["event_type"], "INTERVAL_START");
  EXPECT_EQ(by_key["epoch_start"][1]["metadata"]["epoch_num"], 2);
  EXPECT_EQ(by_key["epoch_stop"][0]["metadata"]["samples_count"], 12);
  EXPECT_EQ(by_key["epoch_stop"][1]["metadata"]["samples_count"], 20);
  EXPECT_EQ(by_key["eval_error"][0]["value"], 0.375);
  EXPECT_EQ(by_key["eval_error"][0]["event_type"], "POINT_IN_TIME");
  EXPECT_EQ(by_key["run_stop"][0]["metadata"]["status"], "success");
}

TEST(MlLogTest, ARunThatFailedOrWasStoppedIsAborted) {
  MlLog::Options options;
  options.path = ::testing::TempDir() + "/aborted.mllog";
  const auto log = MlLog::Create(options);
  ASSERT_TRUE(log.ok()) << log.status();
  RunEnd end;
  end.stopped_by = "SIGTERM";
  (*log)->OnEnd(end);
  end.stopped_by = "";
  end.status = absl::InternalError("rank 1 failed");
  (*log)->OnEnd(end);
  const std::string text = *ReadFile(options.path);
  EXPECT_THAT(text, ::testing::HasSubstr("\"status\":\"aborted\""));
  EXPECT_THAT(text, ::testing::HasSubstr("\"reason\":\"SIGTERM\""));
  EXPECT_THAT(text, ::testing::HasSubstr("\"reason\":\"rank 1 failed\""));
}

TEST(TensorBoardLogTest, HasScalarsPicturesAndTheConfig) {
  const std::string folder = ::testing::TempDir() + "/board";
  std::filesystem::remove_all(folder);
  const auto log = TensorBoardLog::Create(folder, /*first_step=*/0);
  ASSERT_TRUE(log.ok()) << log.status();
  PlayRun(log->get());
  const auto records = report::tensorboard::UnframeRecords(*ReadFile((*log)->path()));
  ASSERT_TRUE(records.ok()) << records.status();
  std::map<std::string, std::vector<std::pair<int64_t, float>>> scalars;
  int pictures = 0, texts = 0;
  for (const std::string& record : *records) {
    report::tensorboard::Event event;
    ASSERT_TRUE(event.ParseFromString(record));
    for (const auto& value : event.summary().value()) {
      if (value.has_image()) {
        EXPECT_EQ(value.image().width(), 6);
        EXPECT_EQ(value.image().encoded().substr(1, 3), "PNG");
        ++pictures;
      } else if (value.has_tensor()) {
        EXPECT_EQ(value.tensor().string_val(0), "    seed: 1\n    steps: 5\n    ");
        ++texts;
      } else {
        scalars[value.tag()].emplace_back(event.step(), value.simple_value());
      }
    }
  }
  EXPECT_EQ(pictures, 1);
  EXPECT_EQ(texts, 1);
  EXPECT_EQ(scalars["train/loss"].size(), 5u);
  EXPECT_EQ(scalars["train/loss"][3], std::make_pair(int64_t{4}, 0.25f));
  EXPECT_EQ(scalars["train/grad_norm"][3], std::make_pair(int64_t{4}, 2.0f));
  EXPECT_EQ(scalars["train/step_seconds"][3], std::make_pair(int64_t{4}, 0.5f));
  EXPECT_EQ(scalars["memory/peak_bytes_of_device_1"][3], std::make_pair(int64_t{4}, 2048.0f));
  EXPECT_EQ(scalars.count("train/share_of_peak"), 0u);
  EXPECT_THAT(scalars["eval_average/q0.75"], ElementsAre(std::make_pair(int64_t{5}, 0.25f)));
  EXPECT_THAT(scalars["eval_average/mean"], ElementsAre(std::make_pair(int64_t{5}, 0.375f)));
}

}  // namespace
}  // namespace dpipe::tools
