#include "core/report/page/html_report.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "core/report/page/html_charts.h"
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
                          std::vector<double> losses) {
  StrategyResult result;
  result.strategy = strategy;
  result.is_unfilled_pipeline = strategy == "1f1b";
  result.images_per_second = {images_per_second, images_per_second + 1};
  result.step_ms = {100};
  result.losses = std::move(losses);
  return result;
}

class HtmlReportTest : public ::testing::Test {
 protected:
  HtmlReportTest() {
    results_.benchmark = "sd_pipeline";
    results_.model = "tiny<sd>";
    results_.num_devices = 2;
    results_.flags = {{"data", "a&b"}};
    results_.results = {MakeResult("data_parallel", 100, {1, 0.5, 0.25001}),
                        MakeResult("1f1b", 90, {1, 0.5, 0.25}),
                        MakeResult("diffusionpipe", 130, {1, 0.5, 0.25})};
    results_.results[2].instruction_times = {{"backward, stage 1", 1, 4, 60, 50}};
    ComputeSpeedups(&results_);
  }
  BenchResults results_;
  const Trace measured_ = MakeSyntheticTrace({"diffusionpipe", 2, 4, 5, 0.05, 1});
  const Trace predicted_ = MakeSyntheticTrace({"diffusionpipe", 2, 4, 4, 0, 1});
};

TEST_F(HtmlReportTest, IsWellFormedAndSelfContained) {
  const auto html = HtmlReport(results_, {{"diffusionpipe", &measured_, &predicted_}});
  ASSERT_TRUE(html.ok()) << html.status();
  const auto elements = ReadXml(*html);
  ASSERT_TRUE(elements.ok()) << elements.status();
  std::set<std::string> ids;
  for (const XmlElement& element : *elements) {
    EXPECT_EQ(element.attributes.count("src") + element.attributes.count("href"), 0)
        << element.name;
    const auto id = element.attributes.find("id");
    if (id == element.attributes.end()) continue;
    EXPECT_TRUE(ids.insert(id->second).second) << id->second << " twice";
  }
  EXPECT_THAT(*html, Not(HasSubstr("@import")));
  const auto count = [&](const std::string& name) {
    return std::count_if(elements->begin(), elements->end(),
                         [&](const XmlElement& element) { return element.name == name; });
  };
  EXPECT_EQ(count("script"), 1);
  EXPECT_EQ(count("h1"), 1);
  EXPECT_EQ(count("h3"), 1) << "one timeline";
}

TEST_F(HtmlReportTest, DescribesTheMeasurement) {
  const std::string html = *HtmlReport(results_, {{"diffusionpipe", &measured_, &predicted_}});
  EXPECT_THAT(html, HasSubstr("tiny&lt;sd&gt;"));
  EXPECT_THAT(html, HasSubstr("a&amp;b"));
  EXPECT_THAT(html, HasSubstr("130.5 ±0.5"));
  EXPECT_THAT(html, HasSubstr("the same steps as predicted"));
  EXPECT_THAT(html, HasSubstr("1f1b, diffusionpipe (identical)"));
  EXPECT_THAT(html, HasSubstr("deviations from the prediction"));
  EXPECT_THAT(html, HasSubstr("backward, stage 1"));
  EXPECT_THAT(html, HasSubstr("within 1e-05 of data_parallel"));
}

TEST_F(HtmlReportTest, WarningsComeFirst) {
  EXPECT_THAT(*HtmlReport(results_, {}), Not(HasSubstr("<h2>Warnings</h2>")));
  results_.results[0].invalid = "its losses differ";
  results_.interrupted = "SIGINT after 3 of 15 turns";
  ComputeSpeedups(&results_);
  const std::string html = *HtmlReport(results_, {});
  EXPECT_THAT(html, HasSubstr("INVALID data_parallel: its losses differ."));
  EXPECT_THAT(html, HasSubstr("Stopped by SIGINT after 3 of 15 turns."));
  EXPECT_LT(html.find("INVALID data_parallel"), html.find("<div class=\"tiles\">"));
  EXPECT_THAT(html, Not(HasSubstr("the throughput of data parallel")));
}

TEST_F(HtmlReportTest, WorksWithoutTracesAndWithoutResults) {
  const auto without_traces = HtmlReport(results_, {});
  ASSERT_TRUE(without_traces.ok());
  EXPECT_THAT(*without_traces, Not(HasSubstr("<h2>Timelines")));
  EXPECT_TRUE(ReadXml(*HtmlReport(BenchResults(), {})).ok());
  EXPECT_TRUE(
      ReadXml(*HtmlReport(results_, {{"1f1b", nullptr, &predicted_}, {"gpipe", nullptr, nullptr}}))
          .ok());
}

TEST_F(HtmlReportTest, BadTraceIsRefused) {
  Trace bad = measured_;
  bad.mutable_events(0)->set_rank(9);
  EXPECT_EQ(HtmlReport(results_, {{"x", &bad, nullptr}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(HtmlReportTest, IntervalsOutliersAndWarmUpAreDrawn) {
  SampleMarks marks;
  marks.low = 95, marks.high = 105;
  marks.outliers = {false, true};
  marks.warm_up = 1;
  const auto elements = ReadXml(ThroughputChart(results_, {marks, SampleMarks(), SampleMarks()}));
  ASSERT_TRUE(elements.ok()) << elements.status();
  std::map<std::string, int> classes;
  for (const XmlElement& element : *elements) {
    const auto found = element.attributes.find("class");
    if (found != element.attributes.end()) ++classes[found->second];
  }
  EXPECT_EQ(classes["whisker"], 1);
  EXPECT_EQ(classes["sample outlier"], 1);
  EXPECT_EQ(classes["sample warm-up"], 1);
  EXPECT_EQ(classes["sample"], 4);
}

TEST_F(HtmlReportTest, EqualLossesAreOneGroup) {
  const auto groups = GroupLosses(results_);
  ASSERT_EQ(groups.size(), 2);
  EXPECT_THAT(groups[0].strategies, ElementsAre("data_parallel"));
  EXPECT_THAT(groups[1].strategies, ElementsAre("1f1b", "diffusionpipe"));
  EXPECT_NEAR(groups[1].max_difference, 1e-5, 1e-12);
}

TEST_F(HtmlReportTest, LossesThatAreNotNumbersAreSkipped) {
  results_.results[0].losses = {1, kNotMeasured, 0.5};
  EXPECT_THAT(LossChart(GroupLosses(results_)), Not(HasSubstr("nan")));
  results_.results[0].losses = {kNotMeasured};
  EXPECT_EQ(LossChart({{{"x"}, {kNotMeasured}, 0}}), "");
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
