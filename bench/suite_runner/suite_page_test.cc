#include "bench/suite_runner/suite_page.h"

#include <set>

#include "bench/suite_runner/suite_charts.h"
#include "core/report/page/packed_fold.h"
#include "core/report/testing/synthetic_trace.h"
#include "core/report/testing/xml_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

report::StrategyResult Result(const std::string& strategy, double images_per_second) {
  report::StrategyResult result;
  result.strategy = strategy;
  result.is_unfilled_pipeline = strategy == "1f1b";
  result.images_per_second = {images_per_second, images_per_second + 1, images_per_second - 1};
  result.step_ms = {100};
  result.step_ms_predicted = 104;
  result.bubble_ratio_measured = 0.1;
  result.idle_by_reason = {{"warm-up", 0.06}, {"cool-down", 0.04}};
  result.loss_check = {"one device", 8, 2e-7, 1e-4};
  return result;
}

class SuitePageTest : public ::testing::Test {
 protected:
  SuitePageTest() {
    results_.suite = "small<suite>";
    for (const int devices : {1, 2}) {
      SuiteCaseResult& one = results_.cases.emplace_back();
      one.id = "cpu." + std::to_string(devices);
      one.results.model = "tiny&sd";
      one.results.backend = "cpu";
      one.results.num_devices = devices;
      one.results.results = {Result("data_parallel", 50.0 * devices), Result("1f1b", 45 * devices),
                             Result("diffusionpipe", 52 * devices)};
      report::ComputeSpeedups(&one.results);
      CaseTraces traces;
      for (const char* strategy : {"1f1b", "diffusionpipe"}) {
        StrategyTraceFile* trace = traces.add_traces();
        trace->set_strategy(strategy);
        *trace->mutable_measured() = report::MakeSyntheticTrace({strategy, 2, 4, 5, 0.05, 1});
        *trace->mutable_predicted() = report::MakeSyntheticTrace({strategy, 2, 4, 4, 0, 1});
      }
      traces_.push_back(traces);
    }
  }
  SuiteResults results_;
  std::vector<CaseTraces> traces_;
};

TEST_F(SuitePageTest, IsWellFormedAndSelfContained) {
  const auto packed = SuitePage(results_, traces_);
  ASSERT_TRUE(packed.ok()) << packed.status();
  ASSERT_TRUE(report::ReadXml(*packed).ok()) << report::ReadXml(*packed).status();
  const auto html = report::UnpackFolds(*packed);
  ASSERT_TRUE(html.ok()) << html.status();
  const auto elements = report::ReadXml(*html);
  ASSERT_TRUE(elements.ok()) << elements.status();
  std::set<std::string> ids;
  for (const report::XmlElement& element : *elements) {
    EXPECT_EQ(element.attributes.count("src") + element.attributes.count("href"), 0)
        << element.name;
    const auto id = element.attributes.find("id");
    if (id == element.attributes.end()) continue;
    EXPECT_TRUE(ids.insert(id->second).second) << id->second << " twice";
  }
  for (const char* outside : {"@import", "http://", "https://"}) {
    std::string text = *html;
    // The SVG namespace is not an address to load from.
    const std::string svg = "http://www.w3.org/2000/svg";
    for (size_t at; (at = text.find(svg)) != std::string::npos;) text.erase(at, svg.size());
    EXPECT_THAT(text, Not(HasSubstr(outside)));
  }
}

TEST_F(SuitePageTest, HasEveryPart) {
  const std::string html = *report::UnpackFolds(*SuitePage(results_, traces_));
  for (const char* part :
       {"small&lt;suite&gt;", "tiny&amp;sd", "Throughput against devices",
        "Predicted against measured", "Idle time by reason", "the same steps as predicted",
        "How to read the timelines", "valid results", "+4.0 %"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  EXPECT_THAT(html, Not(HasSubstr("Read this first")));
}

TEST_F(SuitePageTest, InvalidResultsComeFirst) {
  results_.cases[1].results.results[2].invalid = "the loss of step 0 is nan";
  const std::string html = *SuitePage(results_, traces_);
  EXPECT_THAT(html, HasSubstr("Read this first"));
  EXPECT_THAT(html, HasSubstr("cpu.2, diffusionpipe: the loss of step 0 is nan"));
}

TEST_F(SuitePageTest, WorksWithoutTracesAndWithoutCases) {
  EXPECT_TRUE(report::ReadXml(*SuitePage(results_, {})).ok());
  EXPECT_TRUE(report::ReadXml(*SuitePage(SuiteResults(), {})).ok());
}

TEST_F(SuitePageTest, TimelinesAreASmallPartOfIt) {
  const std::string packed = *SuitePage(results_, traces_);
  const std::string without = *SuitePage(results_, {});
  const std::string whole = *report::UnpackFolds(packed);
  EXPECT_LT(packed.size() - without.size(), (whole.size() - without.size()) / 5);
}

TEST_F(SuitePageTest, CurvesNeedTwoNumbersOfDevices) {
  const auto curves = CurvesByDevices(results_);
  ASSERT_EQ(curves.size(), 1u);
  ASSERT_EQ(curves[0].curves.size(), 3u);
  EXPECT_EQ(curves[0].curves[2].points, (std::vector<std::pair<int, double>>{{1, 52}, {2, 104}}));
  results_.cases.pop_back();
  EXPECT_TRUE(CurvesByDevices(results_).empty());
}

}  // namespace
}  // namespace dpipe::bench
