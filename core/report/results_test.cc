#include "core/report/results.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::report {
namespace {

using ::testing::HasSubstr;

StrategyResult MakeResult(const std::string& strategy, std::vector<double> images_per_second) {
  StrategyResult result;
  result.strategy = strategy;
  result.is_unfilled_pipeline = strategy == "gpipe" || strategy == "1f1b";
  result.images_per_second = std::move(images_per_second);
  result.step_ms = {10.25, 1.0 / 3.0, 12};
  result.bubble_ratio_measured = 0.125;
  result.bubble_ratio_predicted = 0.1;
  result.step_ms_predicted = 9.75;
  result.step_ms_planned = 9.5;
  result.step_over_bound = 1.0625;
  result.peak_memory_bytes = {5, 7};
  result.losses = {0.1, 0.30000000000000004};
  result.gradient_norms = {2.5, 2.25};
  result.session_group = 1;
  result.loss_check = {"one device", 2, 1e-7, 1e-4, 2e-7, 1e-3};
  result.idle_by_reason = {{"steady", 0.1}, {"warm-up", 0.025}};
  result.instruction_times = {{"backward, stage 1", 1, 8, 130.25, 121.5}};
  result.plan = {2, 8, 4, 2, "layers 0-20 | 21-41"};
  return result;
}

BenchResults MakeResults() {
  BenchResults results;
  results.benchmark = "sd_pipeline";
  results.model = "tiny_sd";
  results.backend = "cpu";
  results.dtype = "fp32";
  results.num_devices = 2;
  results.global_batch = 32;
  results.created = "2026-01-31T12:00:00Z";
  results.interrupted = "SIGINT after 3 of 15 turns";
  results.command_line = "sd_pipeline --steps=3 --data=\"a b\"";
  results.machine.cpu_model = "CPU \"X\" é";
  results.machine.memory_bytes = int64_t{1} << 40;
  results.versions = {{"oneDNN", "3.1"}};
  results.flags = {{"steps", "3"}};
  results.results = {MakeResult("data_parallel", {90, 110, 100}), MakeResult("gpipe", {80, 80, 90}),
                     MakeResult("1f1b", {100, 120, 125}),
                     MakeResult("diffusionpipe", {150, 160, 140})};
  results.results[3].storage = {480, 311, int64_t{9} << 20, 2310.5};
  results.results[3].clips_gradients = false;
  ComputeSpeedups(&results);
  return results;
}

TEST(SpeedupTest, RatiosOfMedians) {
  const BenchResults results = MakeResults();
  EXPECT_EQ(results.Find("data_parallel")->speedup_vs_data_parallel, 1);
  EXPECT_EQ(results.Find("diffusionpipe")->speedup_vs_data_parallel, 1.5);
  EXPECT_EQ(results.Find("diffusionpipe")->speedup_vs_best_unfilled_pipeline, 150.0 / 120.0);
  EXPECT_EQ(results.Find("zero3"), nullptr);
}

// Five turns of two steps and a batch of 32; in some turns another program slowed one step.
TEST(StrategyResultTest, ThroughputAndStepTimeAreOneStatistic) {
  for (const size_t turns : {5, 4}) {
    StrategyResult result;
    const std::vector<double> all = {800, 1900, 810, 820, 900, 2500, 790, 800, 805, 1700};
    for (size_t turn = 0; turn < turns; ++turn) {
      const double a = all[2 * turn], b = all[2 * turn + 1];
      result.step_ms.insert(result.step_ms.end(), {a, b});
      result.images_per_second.push_back(32e3 / ((a + b) / 2));
    }
    EXPECT_NEAR(32e3 / result.MedianStepMs(), result.MedianImagesPerSecond(), 1e-9) << turns;
  }
}

TEST(SpeedupTest, InvalidRivalsDoNotCount) {
  BenchResults results = MakeResults();
  results.results[2].invalid = "its losses differ";
  ComputeSpeedups(&results);
  EXPECT_EQ(results.Find("diffusionpipe")->speedup_vs_best_unfilled_pipeline, 150.0 / 80.0);
  EXPECT_TRUE(std::isnan(results.Find("1f1b")->speedup_vs_data_parallel));
}

TEST(SpeedupTest, NoRivalNoSpeedup) {
  BenchResults results;
  results.results = {MakeResult("diffusionpipe", {150})};
  ComputeSpeedups(&results);
  EXPECT_TRUE(std::isnan(results.results[0].speedup_vs_data_parallel));
  EXPECT_TRUE(std::isnan(results.results[0].speedup_vs_best_unfilled_pipeline));
}

TEST(ResultsJsonTest, KeysAndValues) {
  const auto json = nlohmann::json::parse(ResultsToJson(MakeResults()));
  ASSERT_EQ(json.at("results").size(), 4);
  const auto& result = json.at("results").at(3);
  EXPECT_EQ(result.at("strategy"), "diffusionpipe");
  EXPECT_EQ(result.at("images_per_second").at("median"), 150.0);
  EXPECT_EQ(result.at("images_per_second").at("samples").size(), 3);
  EXPECT_EQ(result.at("speedup_vs_data_parallel"), 1.5);
  EXPECT_EQ(result.at("speedup_vs_best_unfilled_pipeline"), 1.25);
  EXPECT_EQ(result.at("bubble_ratio").at("measured"), 0.125);
  EXPECT_EQ(result.at("bubble_ratio").at("predicted"), 0.1);
  EXPECT_EQ(result.at("step_ms").at("measured"), 10.25);
  EXPECT_EQ(result.at("step_ms").at("predicted"), 9.75);
  EXPECT_EQ(result.at("step_ms").at("planned"), 9.5);
  EXPECT_EQ(result.at("step_ms").at("samples").size(), 3);
  EXPECT_EQ(result.at("step_over_bound"), 1.0625);
  EXPECT_EQ(result.at("peak_memory_bytes"), 7);
  EXPECT_EQ(result.at("losses").size(), 2);
  EXPECT_EQ(result.at("spread").at("min"), 140.0);
  EXPECT_EQ(result.at("spread").at("mad"), 10.0);
  EXPECT_EQ(result.at("instruction_times").at(0).at("work"), "backward, stage 1");
  EXPECT_EQ(result.at("plan").at("stages"), 2);
  EXPECT_EQ(result.at("plan").at("micro_batches"), 8);
  EXPECT_EQ(result.at("plan").at("micro_batch_size"), 4);
  EXPECT_EQ(result.at("storage").at("disk_bytes"), int64_t{9} << 20);
  EXPECT_EQ(result.at("storage").at("images"), 480);
  EXPECT_FALSE(json.at("results").at(0).contains("storage"));
  EXPECT_EQ(json.at("machine").at("memory_bytes"), int64_t{1} << 40);
  EXPECT_EQ(json.at("flags").at("steps"), "3");
}

TEST(ResultsJsonTest, RoundTripIsExact) {
  const std::string json = ResultsToJson(MakeResults());
  const auto read = ResultsFromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ResultsToJson(*read), json);
  EXPECT_EQ(read->results[0].step_ms, (std::vector<double>{10.25, 1.0 / 3.0, 12}));
  EXPECT_EQ(read->results[0].losses[1], 0.30000000000000004);
  EXPECT_EQ(read->results[0].storage.num_images, 0);
  EXPECT_EQ(read->results[3].storage.num_captions, 311);
  EXPECT_TRUE(read->results[0].clips_gradients);
  EXPECT_FALSE(read->results[3].clips_gradients);
  EXPECT_EQ(read->results[3].storage.fill_ms, 2310.5);
  EXPECT_EQ(read->machine.cpu_model, "CPU \"X\" é");
}

// Results of measurements on CPUs lack these fields.
TEST(ResultsJsonTest, GpusArePresentIfSomethingRanOnThem) {
  BenchResults results = MakeResults();
  EXPECT_FALSE(nlohmann::json::parse(ResultsToJson(results))["machine"].contains("gpus"));
  results.machine.gpus = {"NVIDIA H200", "NVIDIA H200"};
  results.machine.gpu_driver = "570.86.15";
  const std::string json = ResultsToJson(results);
  const auto read = ResultsFromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ResultsToJson(*read), json);
  EXPECT_EQ(read->machine.gpus, results.machine.gpus);
  EXPECT_EQ(read->machine.gpu_driver, "570.86.15");
}

TEST(ResultsJsonTest, NotMeasuredIsNull) {
  BenchResults results;
  results.results.emplace_back();
  const std::string json = ResultsToJson(results);
  EXPECT_TRUE(nlohmann::json::parse(json)["results"][0]["step_over_bound"].is_null());
  const auto read = ResultsFromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(std::isnan(read->results[0].step_over_bound));
}

TEST(ResultsJsonTest, BytesThatAreNotUtf8DoNotThrow) {
  BenchResults results;
  results.flags["data"] = "/data/\xff";
  EXPECT_THAT(ResultsToJson(results), HasSubstr("\uFFFD"));
}

TEST(ResultsJsonTest, BadFilesAreNamed) {
  EXPECT_THAT(ResultsFromJson("{").status().ToString(),
              HasSubstr("benchmark results: line 1, column"));
  EXPECT_THAT(ResultsFromJson("[]").status().ToString(),
              HasSubstr("the file is missing or not an object"));
  EXPECT_THAT(ResultsFromJson(R"({"format": "x", "format_version": 1})").status().ToString(),
              HasSubstr("format is x version 1"));
  auto json = nlohmann::json::parse(ResultsToJson(MakeResults()));
  json["results"][1]["plan"]["stages"] = "two";
  EXPECT_THAT(ResultsFromJson(json.dump()).status().ToString(),
              HasSubstr("results[1].plan.stages is missing or not an integer"));
  json["results"][1].erase("plan");
  EXPECT_THAT(ResultsFromJson(json.dump()).status().ToString(), HasSubstr("results[1].plan"));
}

}  // namespace
}  // namespace dpipe::report
