#include "bench/simulated/curve_chart.h"

#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// 0 to 100 maps to pixels 64 to 944 from the left, 1 to 2 to pixels 380 to 40 from the top.
TEST(CurveChartTest, PointsHaveTheirCoordinates) {
  CurveChart chart{"loss", "images", "", {{"a & b", {{0, 1}, {50, 1.5}, {100, 2}}, false}}};
  const std::string svg = CurveChartSvg(chart);
  EXPECT_THAT(svg, HasSubstr("points=\"64,380 504,210 944,40\""));
  EXPECT_THAT(svg, HasSubstr("a &amp; b"));
  EXPECT_THAT(svg, Not(HasSubstr("c0 d")));
  chart.curves[0].reference = true;
  chart.curves[0].points[1].second = std::nan("");
  EXPECT_THAT(CurveChartSvg(chart), HasSubstr("class=\"l c0 d\" points=\"64,380 944,40\""));
}

TEST(CurveChartTest, ReferenceIsDrawnLastAndYAxisIsNamed) {
  const std::string svg =
      CurveChartSvg({"loss",
                     "images",
                     "held-out loss",
                     {{"exact", {{0, 1}, {1, 2}}, true}, {"other", {{0, 1}, {1, 2}}, false}}});
  EXPECT_LT(svg.find("<polyline class=\"l c1\""), svg.find("<polyline class=\"l c0 d\""));
  EXPECT_THAT(svg, HasSubstr(">held-out loss</text>"));
}

TEST(CurveChartTest, LogarithmicAxisHasPowersOfTen) {
  CurveChart chart{"t", "Mb/s", "", {{"a", {{100, 1}, {1000, 1.5}, {10000, 2}}, false}}};
  chart.logarithmic_x = true;
  const std::string svg = CurveChartSvg(chart);
  EXPECT_THAT(svg, HasSubstr("points=\"64,380 504,210 944,40\""));
  EXPECT_THAT(svg, HasSubstr("x=\"504\" y=\"398\" text-anchor=\"middle\" class=\"a\">1000<"));
}

TEST(CurveChartTest, EmptyChartHasANote) {
  EXPECT_THAT(CurveChartSvg({"empty", "", "", {}}), HasSubstr("nothing to show"));
  EXPECT_THAT(CurveChartSvg({"one", "", "", {{"a", {{1, 1}}, false}}}),
              HasSubstr("nothing to show"));
}

TEST(CurveChartTest, AtMostEightHuesThenDashes) {
  CurveChart chart{"t", "", "", {}};
  for (int i = 0; i < 12; ++i) {
    chart.curves.push_back({"c", {{0, 1}, {1, 2 + i}}, false});
  }
  const std::string svg = CurveChartSvg(chart);
  const std::string light = svg.substr(0, svg.find("@media"));
  std::set<std::string> colours, looks;
  for (int i = 0; i < 12; ++i) {
    const std::string rule = absl::StrCat(".c", i, "{stroke:");
    const size_t begin = light.find(rule) + rule.size();
    const std::string look = light.substr(begin, light.find('}', begin) - begin);
    EXPECT_TRUE(looks.insert(look).second) << look;
    colours.insert(look.substr(0, 7));
  }
  EXPECT_EQ(colours.size(), 8u);
}

}  // namespace
}  // namespace dpipe::bench
