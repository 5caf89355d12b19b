#include "core/report/results/results.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::report {
namespace {

using ::testing::HasSubstr;

Results MakeResults() {
  Results results;
  results.set_benchmark("sd_pipeline");
  CaseResult& one = *results.add_cases();
  one.set_id("cpu.a");
  one.set_model("tiny_sd");
  one.set_command_line("sd_pipeline --steps=3 --data=\"a b\"");
  one.mutable_machine()->set_cpu_model("CPU \"X\" é");
  one.mutable_machine()->set_memory_bytes(int64_t{1} << 40);
  (*one.mutable_versions())["oneDNN"] = "3.1";
  StrategyResult& result = *one.add_strategies();
  result.set_strategy("diffusionpipe");
  for (const double speed : {150, 160, 140}) result.add_images_per_second(speed);
  for (const double ms : {10.25, 1.0 / 3.0, 12.0}) result.add_step_ms(ms);
  result.add_losses(0.30000000000000004);
  result.add_peak_memory_bytes(5);
  result.add_peak_memory_bytes(int64_t{1} << 60);
  result.set_bubble_ratio_measured(0.125);
  (*result.mutable_idle_by_reason())["steady"] = 0.1;
  result.mutable_plan()->set_num_stages(2);
  return results;
}

// Five turns of two steps and a batch of 32; in some turns another program slowed one step.
TEST(StrategyResultTest, ThroughputAndStepTimeAreOneStatistic) {
  for (const size_t turns : {5, 4}) {
    StrategyResult result;
    const std::vector<double> all = {800, 1900, 810, 820, 900, 2500, 790, 800, 805, 1700};
    for (size_t turn = 0; turn < turns; ++turn) {
      const double a = all[2 * turn], b = all[2 * turn + 1];
      result.add_step_ms(a);
      result.add_step_ms(b);
      result.add_images_per_second(32e3 / ((a + b) / 2));
    }
    EXPECT_NEAR(32e3 / MedianStepMs(result), MedianImagesPerSecond(result), 1e-9) << turns;
  }
}

TEST(StrategyResultTest, WhatWasNotMeasuredIsNotANumber) {
  const StrategyResult result;
  EXPECT_TRUE(std::isnan(result.bubble_ratio_measured()));
  EXPECT_TRUE(std::isnan(result.step_ms_predicted()));
  EXPECT_TRUE(std::isnan(result.loss_check().max_relative_difference()));
  EXPECT_TRUE(std::isnan(MedianStepMs(result)));
  EXPECT_EQ(PeakMemoryBytes(result), 0);
  EXPECT_TRUE(result.clips_gradients());
  EXPECT_FALSE(Counts(result));
}

TEST(ResultsTest, AreFoundByName) {
  const Results results = MakeResults();
  ASSERT_NE(FindCase(results, "cpu.a"), nullptr);
  EXPECT_EQ(FindCase(results, "cpu.b"), nullptr);
  const CaseResult& one = results.cases(0);
  ASSERT_NE(FindStrategyResult(one, "diffusionpipe"), nullptr);
  EXPECT_EQ(FindStrategyResult(one, "zero3"), nullptr);
  EXPECT_EQ(PeakMemoryBytes(one.strategies(0)), int64_t{1} << 60);
  EXPECT_TRUE(Counts(one.strategies(0)));
}

TEST(ResultsJsonTest, KeysAreTheFieldsNames) {
  const auto json = nlohmann::json::parse(ResultsToJson(MakeResults()));
  EXPECT_EQ(json.at("format"), "dpipe.results");
  const auto& one = json.at("cases").at(0);
  EXPECT_EQ(one.at("machine").at("cpu_model"), "CPU \"X\" é");
  const auto& result = one.at("strategies").at(0);
  EXPECT_EQ(result.at("images_per_second").size(), 3u);
  EXPECT_EQ(result.at("bubble_ratio_measured"), 0.125);
  EXPECT_EQ(result.at("idle_by_reason").at("steady"), 0.1);
  EXPECT_FALSE(result.contains("step_ms_predicted")) << "not measured";
}

TEST(ResultsJsonTest, RoundTripIsExact) {
  const std::string json = ResultsToJson(MakeResults());
  const auto read = ResultsFromJson(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ResultsToJson(*read), json);
  const StrategyResult& result = read->cases(0).strategies(0);
  EXPECT_EQ(Numbers(result.step_ms()), (std::vector<double>{10.25, 1.0 / 3.0, 12}));
  EXPECT_EQ(result.losses(0), 0.30000000000000004);
  EXPECT_EQ(result.peak_memory_bytes(1), int64_t{1} << 60);
  const std::string one = CaseToJson(read->cases(0));
  ASSERT_TRUE(CaseFromJson(one).ok());
  EXPECT_EQ(CaseToJson(*CaseFromJson(one)), one);
}

TEST(ResultsJsonTest, NumbersThatAreNotFiniteAreKept) {
  Results results = MakeResults();
  StrategyResult& result = *results.mutable_cases(0)->mutable_strategies(0);
  result.add_losses(NAN);
  result.add_losses(std::numeric_limits<double>::infinity());
  const auto read = ResultsFromJson(ResultsToJson(results));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(std::isnan(read->cases(0).strategies(0).losses(1)));
  EXPECT_TRUE(std::isinf(read->cases(0).strategies(0).losses(2)));
}

TEST(ResultsJsonTest, BytesThatAreNotUtf8DoNotThrow) {
  Results results = MakeResults();
  (*results.mutable_cases(0)->mutable_flags())["data"] = "/data/\xff";
  EXPECT_TRUE(ResultsFromJson(ResultsToJson(results)).ok());
}

TEST(ResultsJsonTest, BadFilesAreNamed) {
  const auto error = [](const std::string& json) {
    return std::string(ResultsFromJson(json).status().message());
  };
  EXPECT_THAT(error("{"), HasSubstr("benchmark results: line 1, column"));
  EXPECT_THAT(error("[]"), HasSubstr("object"));
  EXPECT_THAT(error("{}"), HasSubstr("format is missing"));
  EXPECT_THAT(
      error(R"({"format": "dpipe.suite_results", "format_version": 1})"),
      HasSubstr("format is \"dpipe.suite_results\", version 1; expected \"dpipe.results\""));
  auto json = nlohmann::json::parse(ResultsToJson(MakeResults()));
  json["rounds"] = 0;
  EXPECT_THAT(error(json.dump()), HasSubstr("rounds is 0"));
  json["rounds"] = 1;
  json["cases"][0]["strategies"][0]["plan"]["num_stages"] = "two";
  EXPECT_THAT(error(json.dump()), HasSubstr("num_stages"));
  json["cases"][0]["strategies"][0].erase("plan");
  json["cases"][0]["state"] = "FASTENED";
  EXPECT_THAT(error(json.dump()), HasSubstr("FASTENED"));
  json["cases"][0].erase("state");
  json["cases"][0]["strategie"] = 1;
  EXPECT_THAT(error(json.dump()), HasSubstr("strategie"));
}

}  // namespace
}  // namespace dpipe::report
