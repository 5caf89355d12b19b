// The grid on one small case, and the report of results given by hand.
#include <cmath>
#include <limits>

#include "bench/bar_chart.h"
#include "bench/paper_grid.h"
#include "bench/paper_report.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::bench {
namespace {

Outcome Planned(const std::string& label, Role role, double rate) {
  Outcome outcome;
  outcome.label = outcome.spec = label;
  outcome.role = role;
  outcome.images_per_second = rate;
  outcome.step_ns = 1100;
  outcome.lower_bound_ns = 1000;
  return outcome;
}

CaseResult ByHand() {
  CaseResult c;
  c.model = "model";
  c.cluster = "a100_8x1";
  c.num_devices = 8;
  c.global_batch = 64;
  c.outcomes = {Planned("data_parallel", Role::kDataParallel, 100),
                Planned("gpipe", Role::kPipeline, 80), Planned("1f1b", Role::kPipeline, 90),
                Planned("diffusionpipe", Role::kFilled, 120)};
  c.outcomes.back().unfilled_bubble_ratio = 0.3;
  c.outcomes.back().bubble_ratio = 0.02;
  Outcome refused;
  refused.label = "zero3";
  refused.refusal = "no room";
  c.outcomes.push_back(refused);
  c.ablations = {Planned("no filling", Role::kPipeline, 90)};
  return c;
}

TEST(PaperGridTest, SpeedupsByHand) {
  const CaseResult c = ByHand();
  const Outcome* ours = c.Find("diffusionpipe");
  EXPECT_DOUBLE_EQ(Speedup(ours, c.Find("data_parallel")), 1.2);
  EXPECT_EQ(c.Fastest(Role::kPipeline)->label, "1f1b");
  EXPECT_EQ(c.Find("zero3"), nullptr);
  EXPECT_EQ(c.Fastest(Role::kCached), nullptr);
  EXPECT_TRUE(std::isnan(Speedup(ours, c.Find("zero3"))));
}

TEST(PaperReportTest, TablesAndReasons) {
  const PaperReport report = MakePaperReport({ByHand()}, {});
  for (const std::string text :
       {"1.41x", "1.28x", "below 5.0 %", "published by the paper", "1.50x", "1.20x", "1.33x",
        "0.75x", "30.0 %", "2.0 %", "1.100; ", "1f1b; diffusionpipe",
        "- zero3, 8 devices, batch 64: no room", "(model_speedups.svg)"}) {
    EXPECT_NE(report.markdown.find(text), std::string::npos) << text << "\n" << report.markdown;
  }
  EXPECT_EQ(report.pictures.size(), 5u);
  EXPECT_NE(report.pictures.at("model_bubbles.svg").find("published: below 5 %"),
            std::string::npos);
}

TEST(PaperReportTest, Json) {
  const auto json = nlohmann::json::parse(PaperJson({ByHand()}, {}));
  const auto& c = json.at("cases").at(0);
  EXPECT_EQ(c.at("strategies").size(), 5u);
  EXPECT_EQ(c.at("strategies").at(3).at("bubble_ratio"), 0.02);
  EXPECT_EQ(c.at("strategies").at(4).at("refusal"), "no room");
  EXPECT_EQ(json.at("published").at("speedup_over_pipelines_at_most"), 1.41);
}

TEST(BarChartTest, BarsAreProportionalAndMissingValuesLeaveAGap) {
  BarChart chart{"t <1>", "ms", {"a", "b"}, {{"s", {5, std::nan("")}}, {"r", {10, 2.5}}}, {}};
  const std::string svg = BarChartSvg(chart);
  EXPECT_NE(svg.find("t &lt;1&gt;"), std::string::npos);
  // The plot is 300 high and ends at 10.
  EXPECT_NE(svg.find("height=\"150\"><title>s, a: 5 ms"), std::string::npos);
  EXPECT_NE(svg.find("height=\"300\"><title>r, a: 10 ms"), std::string::npos);
  EXPECT_NE(svg.find("height=\"75\"><title>r, b: 2.5 ms"), std::string::npos);
  EXPECT_EQ(svg.find("<title>s, b"), std::string::npos);
  chart.series.clear();
  EXPECT_NE(BarChartSvg(chart).find("nothing to show"), std::string::npos);
}

TEST(PaperGridTest, StableDiffusionOnEightDevices) {
  GridOptions options;
  options.profiles_folder = "data/profiles/modelled/a100_80gb";
  options.clusters_folder = "data/clusters";
  options.models = {"stable_diffusion_v2_1_512"};
  options.devices = {8};
  options.device_batches = {16};
  options.contenders = {{"data_parallel", "data_parallel"},
                        {"gpipe", "gpipe"},
                        {"diffusionpipe", "diffusionpipe"},
                        {"unknown", "no_such_strategy"}};
  const auto results = RunGrid(options);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), 1u);
  const CaseResult& c = (*results)[0];
  EXPECT_EQ(c.global_batch, 128);
  const Outcome* ours = c.Find("diffusionpipe");
  ASSERT_NE(ours, nullptr);
  EXPECT_GT(Speedup(ours, c.Find("gpipe")), 1);
  EXPECT_LE(ours->bubble_ratio, ours->unfilled_bubble_ratio);
  EXPECT_GE(ours->step_ns, ours->lower_bound_ns);
  EXPECT_GT(ours->planning_ns, 0);
  EXPECT_FALSE(c.outcomes[3].planned());
}

// Whatever the search can plan of cascaded models, no row may speak of a part of the model.
TEST(PaperGridTest, EveryBackboneIsPlannedOrTheCaseRefused) {
  GridOptions options;
  options.profiles_folder = "data/profiles/modelled/a100_80gb";
  options.clusters_folder = "data/clusters";
  options.models = {"cdm_imagenet_256"};
  options.devices = {8};
  options.device_batches = {8};
  options.contenders = {{"data_parallel", "data_parallel"}};
  const auto results = RunGrid(options);
  ASSERT_TRUE(results.ok()) << results.status();
  const Outcome& outcome = (*results)[0].outcomes[0];
  // Both backbones' forward and backward multiply-adds at the peak of eight A100.
  const double least_s = 64 * 3 * (109.68e9 + 631.64e9) / (8 * 156e12);
  if (outcome.planned()) {
    EXPECT_GT(outcome.step_ns * 1e-9, least_s);
  } else {
    EXPECT_NE(outcome.refusal.find("backbone"), std::string::npos) << outcome.refusal;
  }
}

TEST(PaperGridTest, ErrorsNameWhatIsWrong) {
  GridOptions options;
  options.devices = {12};
  EXPECT_NE(std::string(RunGrid(options).status().message()).find("12"), std::string::npos);
  options.devices = {8};
  options.models = {"no_such_model"};
  EXPECT_NE(std::string(RunGrid(options).status().message()).find("no_such_model.textproto"),
            std::string::npos);
}

}  // namespace
}  // namespace dpipe::bench
