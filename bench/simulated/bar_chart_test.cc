#include "bench/simulated/bar_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/report/testing/xml_reader.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

// The name of a reference line is below the plot, where no bar hides it.
TEST(BarChartTest, LevelsAreNamedInTheLegend) {
  const BarChart chart{"t",   "",           "x",
                       {"a"}, {{"s", {2}}}, {{"published: 1.28x", 1.28}, {"other", 1}}};
  const std::string svg = BarChartSvg(chart);
  const size_t name = svg.find(">published: 1.28x</text>");
  ASSERT_NE(name, std::string::npos);
  const size_t y = svg.rfind("y=\"", name) + 3;
  EXPECT_GT(std::stoi(svg.substr(y, 4)), 376 + 28) << "the plot ends at 376";
  EXPECT_NE(svg.find("class=\"r r2\""), std::string::npos);
}

TEST(BarChartTest, BarsAreProportionalAndMissingValuesLeaveAGap) {
  BarChart chart{
      "t <1>", "simulated", "ms", {"a", "b"}, {{"s", {5, std::nan("")}}, {"r", {10, 2.5}}}, {}};
  const std::string svg = BarChartSvg(chart);
  EXPECT_NE(svg.find("t &lt;1&gt;"), std::string::npos);
  EXPECT_NE(svg.find(">simulated</text>"), std::string::npos);
  // The plot is 300 pixels high and ends at 10.
  EXPECT_NE(svg.find("height=\"150\"><title>s, a: 5 ms"), std::string::npos);
  EXPECT_NE(svg.find("height=\"300\"><title>r, a: 10 ms"), std::string::npos);
  EXPECT_NE(svg.find("height=\"75\"><title>r, b: 2.5 ms"), std::string::npos);
  EXPECT_EQ(svg.find("<title>s, b"), std::string::npos);
  chart.series.clear();
  EXPECT_NE(BarChartSvg(chart).find("nothing to show"), std::string::npos);
}

struct DrawnBar {
  std::string title, color, hatch, value;
  double left = 0, right = 0, top = 0, bottom = 0;
  double value_x = 0, value_y = 0;
};

// Returns the bars of a chart with their values, which must be in the same order.
std::vector<DrawnBar> BarsOf(const std::string& svg) {
  const auto elements = report::ReadXml(svg);
  EXPECT_TRUE(elements.ok()) << elements.status();
  std::vector<DrawnBar> bars;
  size_t num_values = 0;
  for (const report::XmlElement& element : *elements) {
    const auto number = [](const report::XmlElement& of, const char* name) {
      return std::stod(of.attributes.at(name));
    };
    const report::XmlElement& parent = (*elements)[std::max(0, element.parent)];
    const auto css_class = element.attributes.find("class");
    if (element.name == "title") {
      DrawnBar& bar = bars.emplace_back();
      bar.title = element.text;
      bar.color = parent.attributes.at("class");
      bar.left = number(parent, "x");
      bar.right = bar.left + number(parent, "width");
      bar.top = number(parent, "y");
      bar.bottom = bar.top + number(parent, "height");
    } else if (element.name == "rect" && element.attributes.count("pointer-events") > 0) {
      if (num_values == 0) bars.back().hatch = element.attributes.at("fill");
    } else if (css_class != element.attributes.end() && css_class->second == "v") {
      DrawnBar& bar = bars.at(num_values++);
      bar.value = element.text;
      bar.value_x = number(element, "x");
      bar.value_y = number(element, "y");
      if (parent.name == "g") {
        EXPECT_EQ(std::sscanf(parent.attributes.at("transform").c_str(),
                              "translate(%lf %lf) rotate(-90)", &bar.value_x, &bar.value_y),
                  2);
      }
    }
  }
  EXPECT_EQ(num_values, bars.size());
  return bars;
}

TEST(BarChartTest, EveryBarHasItsValueAboveIt) {
  const BarChart chart{"t", "", "ms", {"a", "b"}, {{"s", {5, std::nan("")}}, {"r", {123.4, 0}}},
                       {}};
  const std::vector<DrawnBar> bars = BarsOf(BarChartSvg(chart));
  ASSERT_EQ(bars.size(), 3u);
  EXPECT_EQ(bars[0].value, "5.00");
  EXPECT_EQ(bars[1].value, "123");
  EXPECT_EQ(bars[2].value, "0.00");
  for (const DrawnBar& bar : bars) {
    EXPECT_NEAR(bar.value_x, (bar.left + bar.right) / 2, 0.01) << bar.title;
    EXPECT_NEAR(bar.value_y, bar.top - 4, 0.01) << bar.title;
  }
}

TEST(BarChartTest, ManySeriesHaveAtMostEightHuesAndReadableValues) {
  BarChart chart{"t", "", "x", {}, {}, {}};
  for (int g = 0; g < 9; ++g) chart.groups.push_back(absl::StrCat("g", g));
  for (int s = 0; s < 19; ++s) {
    BarSeries series{absl::StrCat("s", s), {}};
    for (int g = 0; g < 9; ++g) series.values.push_back(10 + g + 0.1 * s);
    chart.series.push_back(series);
  }
  const std::string svg = BarChartSvg(chart);
  const std::vector<DrawnBar> bars = BarsOf(svg);
  ASSERT_EQ(bars.size(), 9u * 19);
  std::set<std::string> colors, looks;
  double right = 0, bottom = 0;
  for (const DrawnBar& bar : bars) {
    colors.insert(bar.color);
    looks.insert(bar.color + bar.hatch);
    EXPECT_EQ(bar.value,
              absl::StrFormat("%.1f", std::stod(bar.title.substr(bar.title.find(": ") + 2))));
    EXPECT_LT(bar.value_y, bar.top);
    EXPECT_LE(bar.right, 944.01) << bar.title;
    // Upright values of 10 pixels are beside each other, or in another row of groups.
    if (bar.bottom == bottom) {
      EXPECT_GE(bar.value_x, right + 10) << bar.title;
    } else {
      EXPECT_GT(bar.top, bottom + 20) << bar.title;
    }
    right = bar.value_x;
    bottom = bar.bottom;
  }
  EXPECT_EQ(colors.size(), 8u);
  EXPECT_EQ(looks.size(), 19u) << "series of one hue differ in their hatching";
  size_t num_patterns = 0;
  for (size_t at = svg.find("<pattern "); at != std::string::npos;
       at = svg.find("<pattern ", at + 1)) {
    ++num_patterns;
  }
  EXPECT_EQ(num_patterns, 2u);
}

}  // namespace
}  // namespace dpipe::bench
