#include "core/report/timeline/timeline_svg.h"

#include <cstdlib>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/report/markup.h"
#include "core/report/testing/synthetic_trace.h"
#include "core/report/testing/xml_reader.h"
#include "core/report/timeline/bubbles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

using ::testing::HasSubstr;

Trace MakeTrace(const std::string& strategy, int num_devices) {
  return MakeSyntheticTrace({strategy, num_devices, 4, 6, 0.05, 1});
}

std::vector<XmlElement> Elements(const absl::StatusOr<std::string>& svg) {
  EXPECT_TRUE(svg.ok()) << svg.status();
  const auto elements = ReadXml(*svg);
  EXPECT_TRUE(elements.ok()) << elements.status();
  return *elements;
}

std::string Attribute(const XmlElement& element, const std::string& name) {
  const auto found = element.attributes.find(name);
  return found == element.attributes.end() ? "" : found->second;
}

// The share beside a lane is that of the chart and the table of times per device.
TEST(TimelineSvgTest, IdleSharesAreOfSteadyOrRequestedSteps) {
  const Trace trace = MakeSyntheticTrace({"1f1b", 2, 4, 6, 0.3, 1});
  const auto index = TraceIndex::Create(trace);
  ASSERT_TRUE(index.ok()) << index.status();
  const auto idle_of = [&index](StepWindow steps) {
    const DeviceTime device = DeviceTimes(*index, steps)[1];
    return absl::StrCat(">idle ", PercentText(device.IdleNs() / device.step_ns), "<");
  };
  const std::string steady = idle_of(index->SteadySteps()), requested = idle_of({1, 1});
  EXPECT_NE(steady, requested);
  EXPECT_NE(steady, idle_of(index->TypicalSteps(2))) << "these are drawn";
  TimelineOptions options;
  EXPECT_THAT(MakeTimelineParts(trace, options)->labels, HasSubstr(steady));
  options.window = {1, 1};
  EXPECT_THAT(MakeTimelineParts(trace, options)->labels, HasSubstr(requested));
}

TEST(TimelineSvgTest, EveryComputeEventOfTheWindowIsDrawnOnce) {
  for (const char* strategy : {"data_parallel", "gpipe", "1f1b", "diffusionpipe"}) {
    for (const int num_devices : {2, 4}) {
      const Trace trace = MakeTrace(strategy, num_devices);
      TimelineOptions options;
      options.window = {2, 2};
      int expected = 0;
      for (const TraceEvent& event : trace.events()) {
        expected += event.stream() == TraceEvent::COMPUTE &&
                    event.end_ns() > trace.step_start_ns(2) &&
                    event.start_ns() < trace.step_start_ns(4);
      }
      const auto elements = Elements(TimelineSvg(trace, strategy, options));
      std::map<int, int> rects;  // number per group
      for (const XmlElement& element : elements) rects[element.parent] += element.name == "rect";
      std::set<std::string> drawn;
      for (size_t i = 0; i < elements.size(); ++i) {
        const std::string key = Attribute(elements[i], "data-k");
        if (key.empty() || key[0] != 'c') continue;
        EXPECT_TRUE(drawn.insert(key).second) << key;
        EXPECT_EQ(rects[static_cast<int>(i)], 1);
      }
      EXPECT_EQ(drawn.size(), expected) << strategy;
    }
  }
}

TEST(TimelineSvgTest, BoxesOfOneDeviceDoNotOverlap) {
  const auto elements = Elements(TimelineSvg(MakeTrace("diffusionpipe", 2), "t"));
  std::map<std::string, std::map<double, double>> lanes;  // y → x → end
  for (const XmlElement& element : elements) {
    if (element.name != "rect" || element.parent < 0) continue;
    const std::string key = Attribute(elements[element.parent], "data-k");
    if (key.empty() || key[0] == 'm') continue;
    const double x = std::atof(Attribute(element, "x").c_str());
    EXPECT_GE(x, 0);
    lanes[Attribute(element, "y")][x] = x + std::atof(Attribute(element, "width").c_str());
  }
  ASSERT_EQ(lanes.size(), 2);
  for (const auto& [y, boxes] : lanes) {
    double covered = 0, previous_end = 0;
    for (const auto& [x, end] : boxes) {
      EXPECT_GE(x, previous_end - 0.06) << "narrow boxes are drawn a little wider";
      previous_end = end;
      covered += end - x;
    }
    EXPECT_NEAR(covered, 100, 1) << "work and bubbles fill the lane";
  }
}

TEST(TimelineSvgTest, NarrowBoxesHaveNoText) {
  const Trace trace = MakeTrace("diffusionpipe", 4);
  TimelineOptions options;
  const auto count_texts = [&](double width_px) {
    options.nominal_width_px = width_px;
    int texts = 0;
    const auto elements = Elements(TimelineSvg(trace, "t", options));
    for (const XmlElement& element : elements) {
      if (element.name != "text" || element.parent < 0) continue;
      if (Attribute(elements[element.parent], "data-k").empty()) continue;
      ++texts;
    }
    return texts;
  };
  EXPECT_EQ(count_texts(20), 0);
  EXPECT_GT(count_texts(1000), 20);
  EXPECT_GT(count_texts(10000), count_texts(1000));
}

TEST(TimelineSvgTest, EverythingHasATooltipAndMessagesHaveArrows) {
  const auto elements = Elements(TimelineSvg(MakeTrace("1f1b", 2), "t"));
  int boxes = 0, titles = 0, arrows = 0;
  for (const XmlElement& element : elements) {
    boxes += element.attributes.count("data-k") > 0;
    titles += element.name == "title" && element.parent > 0 &&
              elements[element.parent].attributes.count("data-k") > 0;
    arrows += absl::StartsWith(Attribute(element, "class"), "msg") && element.name == "line";
  }
  EXPECT_GT(boxes, 20);
  EXPECT_EQ(titles, boxes);
  // Two steps of 4 activations, 4 gradients, text both ways and latents to the first device.
  EXPECT_EQ(arrows, 2 * (4 + 4 + 3));
}

TEST(TimelineSvgTest, FrozenWorkHasItsOwnColoursAndLegend) {
  const std::string filled = *TimelineSvg(MakeTrace("diffusionpipe", 2), "a <title> & more");
  EXPECT_THAT(filled, HasSubstr("vae_encoder (frozen)"));
  EXPECT_THAT(filled, HasSubstr("for the next step"));
  EXPECT_THAT(filled, HasSubstr("bubble (idle)"));
  EXPECT_THAT(filled, HasSubstr("a &lt;title&gt; &amp; more"));
  EXPECT_THAT(filled, HasSubstr("prefers-color-scheme:dark"));
}

TEST(TimelineSvgTest, BadWindowsAreRefused) {
  Trace trace = MakeTrace("1f1b", 2);
  TimelineOptions options;
  options.window = {5, 2};
  EXPECT_THAT(TimelineSvg(trace, "t", options).status().ToString(),
              HasSubstr("steps 5 to 6 are not in the trace, which has 6"));
  trace.clear_step_start_ns();
  EXPECT_THAT(TimelineSvg(trace, "t").status().ToString(), HasSubstr("no complete step"));
}

TEST(TimelineSvgTest, OneStepIsEnough) {
  const Trace trace = MakeSyntheticTrace({"1f1b", 2, 4, 1, 0, 1});
  EXPECT_TRUE(TimelineSvg(trace, "t").ok());
}

}  // namespace
}  // namespace dpipe::report
