#include "core/report/page/results_page.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/report/page/html_charts.h"
#include "core/report/page/packed_fold.h"
#include "core/report/page/suite_charts.h"
#include "core/report/testing/synthetic_trace.h"
#include "core/report/testing/xml_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

StrategyResult MakeResult(const std::string& strategy, double images_per_second,
                          const std::vector<double>& losses) {
  StrategyResult result;
  result.set_strategy(strategy);
  result.set_is_unfilled_pipeline(strategy == "1f1b");
  for (const double more : {0.0, 1.0, -1.0}) result.add_images_per_second(images_per_second + more);
  for (int i = 0; i < 3; ++i) result.add_step_ms(32e3 / images_per_second);
  result.set_step_ms_predicted(1.04 * 32e3 / images_per_second);
  result.set_bubble_ratio_measured(0.1);
  (*result.mutable_idle_by_reason())["warm-up"] = 0.06;
  (*result.mutable_idle_by_reason())["cool-down"] = 0.04;
  result.mutable_loss_check()->set_num_steps(8);
  result.mutable_loss_check()->set_max_relative_difference(2e-7);
  *result.mutable_losses() = {losses.begin(), losses.end()};
  return result;
}

CaseResult MakeCase(int num_devices) {
  CaseResult one;
  one.set_id("cpu." + std::to_string(num_devices));
  one.set_model("tiny<sd>");
  one.set_backend("cpu");
  one.set_num_devices(num_devices);
  one.set_global_batch(32);
  (*one.mutable_flags())["data"] = "a&b";
  *one.add_strategies() = MakeResult("data_parallel", 50 * num_devices, {1, 0.5, 0.25001});
  *one.add_strategies() = MakeResult("1f1b", 45 * num_devices, {1, 0.5, 0.25});
  *one.add_strategies() = MakeResult("diffusionpipe", 65 * num_devices, {1, 0.5, 0.25});
  return one;
}

// Returns the page's elements, after a check that it needs nothing else.
std::vector<XmlElement> SelfContained(const std::string& html) {
  auto elements = ReadXml(html);
  EXPECT_TRUE(elements.ok()) << elements.status();
  if (!elements.ok()) return {};
  std::set<std::string> ids;
  for (const XmlElement& element : *elements) {
    EXPECT_EQ(element.attributes.count("src") + element.attributes.count("href"), 0u)
        << element.name;
    const auto id = element.attributes.find("id");
    if (id == element.attributes.end()) continue;
    EXPECT_TRUE(ids.insert(id->second).second) << id->second << " twice";
  }
  std::string text = html;
  // The SVG namespace is not an address to load from.
  const std::string svg = "http://www.w3.org/2000/svg";
  for (size_t at; (at = text.find(svg)) != std::string::npos;) text.erase(at, svg.size());
  for (const char* outside : {"@import", "http://", "https://"}) {
    EXPECT_THAT(text, Not(HasSubstr(outside)));
  }
  return *std::move(elements);
}

// The page of a single case, as the main job writes it.
class ResultsPageTest : public ::testing::Test {
 protected:
  ResultsPageTest() {
    results_.set_benchmark("sd_pipeline");
    *results_.add_cases() = MakeCase(2);
    InstructionTimes& times =
        *results_.mutable_cases(0)->mutable_strategies(2)->add_instruction_times();
    times.set_work("backward, stage 1");
    times.set_device(1);
    times.set_per_step(4);
    times.set_measured_ms(60);
    times.set_predicted_ms(50);
  }
  Results results_;
  const Trace measured_ = MakeSyntheticTrace({"diffusionpipe", 2, 4, 5, 0.05, 1});
  const Trace predicted_ = MakeSyntheticTrace({"diffusionpipe", 2, 4, 4, 0, 1});
};

TEST_F(ResultsPageTest, IsWellFormedAndSelfContained) {
  const auto html = ResultsPage(results_, {{{"diffusionpipe", &measured_, &predicted_}}});
  ASSERT_TRUE(html.ok()) << html.status();
  const std::vector<XmlElement> elements = SelfContained(*html);
  const auto count = [&](const std::string& name) {
    return std::count_if(elements.begin(), elements.end(),
                         [&](const XmlElement& element) { return element.name == name; });
  };
  EXPECT_EQ(count("script"), 1);
  EXPECT_EQ(count("h1"), 1);
}

TEST_F(ResultsPageTest, DescribesTheMeasurement) {
  const std::string html = *ResultsPage(results_, {{{"diffusionpipe", &measured_, &predicted_}}});
  for (const char* part :
       {"tiny&lt;sd&gt;", "a&amp;b", "130.0 img/s", "diffusionpipe, the fastest",
        "the throughput of data parallelism", "the same steps as predicted",
        "1f1b, diffusionpipe (identical)", "deviations from the prediction", "backward, stage 1",
        "within 1e-05 of data_parallel", "Idle time by reason", "How to read the timelines",
        "bubble: idle compute time"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("Read this first")));
}

TEST_F(ResultsPageTest, WarningsComeFirst) {
  CaseResult& one = *results_.mutable_cases(0);
  one.mutable_strategies(0)->set_invalid("its losses differ");
  one.set_interrupted("SIGINT after 3 of 15 turns");
  const std::string html = *ResultsPage(results_, {});
  EXPECT_THAT(html, HasSubstr("cpu.2, data_parallel: its losses differ"));
  EXPECT_THAT(html, HasSubstr("stopped by SIGINT after 3 of 15 turns"));
  EXPECT_LT(html.find("Read this first"), html.find("<div class=\"tiles\">"));
  EXPECT_THAT(html, Not(HasSubstr("the throughput of data parallelism")));
}

TEST_F(ResultsPageTest, WorksWithoutTracesAndWithoutResults) {
  const auto without_traces = ResultsPage(results_, {});
  ASSERT_TRUE(without_traces.ok());
  EXPECT_THAT(*without_traces, Not(HasSubstr("Timelines")));
  SelfContained(*ResultsPage(Results(), {}));
  SelfContained(
      *ResultsPage(results_, {{{"1f1b", nullptr, &predicted_}, {"gpipe", nullptr, nullptr}}}));
}

TEST_F(ResultsPageTest, BadTraceIsRefused) {
  Trace bad = measured_;
  bad.mutable_events(0)->set_rank(9);
  EXPECT_EQ(ResultsPage(results_, {{{"x", &bad, nullptr}}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ResultsPageTest, EmulatedStepsAreNoMeasurements) {
  EXPECT_EQ(PredictionRows(results_).size(), 3u);
  results_.mutable_cases(0)->set_backend("emulated");
  EXPECT_TRUE(PredictionRows(results_).empty());
}

TEST(ThroughputChartTest, IntervalsOutliersAndWarmUpAreDrawn) {
  StrategyResult result;
  for (const double speed : {99.0, 102.0}) result.add_images_per_second(speed);
  CaseAnalysis analysis;
  analysis.warm_up_turns = 1;
  StrategyAnalysis& strategy = analysis.strategies.emplace_back();
  strategy.result = &result;
  strategy.images_per_second = {100, 95, 105};
  strategy.outliers = {false, true};
  const auto elements = ReadXml(ThroughputChart(analysis));
  ASSERT_TRUE(elements.ok()) << elements.status();
  std::map<std::string, int> classes;
  for (const XmlElement& element : *elements) {
    const auto found = element.attributes.find("class");
    if (found != element.attributes.end()) ++classes[found->second];
  }
  EXPECT_EQ(classes["whisker"], 1);
  EXPECT_EQ(classes["sample outlier"], 1);
  EXPECT_EQ(classes["sample warm-up"], 1);
}

TEST_F(ResultsPageTest, EqualLossesAreOneGroup) {
  const auto groups = GroupLosses(results_.cases(0));
  ASSERT_EQ(groups.size(), 2);
  EXPECT_THAT(groups[0].strategies, ElementsAre("data_parallel"));
  EXPECT_THAT(groups[1].strategies, ElementsAre("1f1b", "diffusionpipe"));
  EXPECT_NEAR(groups[1].max_difference, 1e-5, 1e-12);
}

TEST_F(ResultsPageTest, LossesThatAreNotNumbersAreSkipped) {
  auto& losses = *results_.mutable_cases(0)->mutable_strategies(0)->mutable_losses();
  losses[1] = NAN;
  EXPECT_THAT(LossChart(GroupLosses(results_.cases(0))), Not(HasSubstr("nan")));
  EXPECT_EQ(LossChart({{{"x"}, {NAN}, 0}}), "");
}

// The page of a suite of two cases.
class SuitePageTest : public ::testing::Test {
 protected:
  SuitePageTest() {
    results_.set_benchmark("small<suite>");
    for (const int devices : {1, 2}) {
      *results_.add_cases() = MakeCase(devices);
      traces_.push_back(
          {{"1f1b", &measured_, &predicted_}, {"diffusionpipe", &measured_, nullptr}});
    }
  }
  Results results_;
  const Trace measured_ = MakeSyntheticTrace({"diffusionpipe", 2, 4, 5, 0.05, 1});
  const Trace predicted_ = MakeSyntheticTrace({"diffusionpipe", 2, 4, 4, 0, 1});
  std::vector<std::vector<StrategyTraces>> traces_;
};

TEST_F(SuitePageTest, IsWellFormedAndSelfContained) {
  const auto packed = ResultsPage(results_, traces_);
  ASSERT_TRUE(packed.ok()) << packed.status();
  SelfContained(*packed);
  const auto html = UnpackFolds(*packed);
  ASSERT_TRUE(html.ok()) << html.status();
  SelfContained(*html);
}

TEST_F(SuitePageTest, HasEveryPart) {
  const std::string html = *UnpackFolds(*ResultsPage(results_, traces_));
  for (const char* part :
       {"small&lt;suite&gt;", "tiny&lt;sd&gt;", "Throughput against devices",
        "Measured against predicted", "Idle time by reason", "the same steps as predicted",
        "How to read the timelines", "measured results", "step -3.8 %"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST_F(SuitePageTest, TimelinesAreASmallPartOfIt) {
  const std::string packed = *ResultsPage(results_, traces_);
  const std::string without = *ResultsPage(results_, {});
  const std::string whole = *UnpackFolds(packed);
  EXPECT_LT(packed.size() - without.size(), (whole.size() - without.size()) / 5);
}

TEST_F(SuitePageTest, CurvesNeedTwoNumbersOfDevices) {
  const auto curves = CurvesByDevices(results_);
  ASSERT_EQ(curves.size(), 1u);
  ASSERT_EQ(curves[0].curves.size(), 3u);
  EXPECT_EQ(curves[0].curves[2].points, (std::vector<std::pair<int, double>>{{1, 65}, {2, 130}}));
  results_.mutable_cases()->RemoveLast();
  EXPECT_TRUE(CurvesByDevices(results_).empty());
}

TEST(DeviceTimeChartTest, SharesFillTheBar) {
  const Trace trace = MakeSyntheticTrace({"1f1b", 2, 4, 4, 0.05, 1});
  const auto index = TraceIndex::Create(trace);
  const auto elements = ReadXml(DeviceTimeChart(DeviceTimes(*index, {1, 2}), {0, 1}, "x"));
  ASSERT_TRUE(elements.ok()) << elements.status();
  double total = 0;
  for (const XmlElement& element : *elements) {
    const auto width = element.attributes.find("width");
    if (element.name == "rect" && element.attributes.count("x") > 0)
      total += std::atof(width->second.c_str());
  }
  EXPECT_NEAR(total, 200, 0.5);
}

}  // namespace
}  // namespace dpipe::report
