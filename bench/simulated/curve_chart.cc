#include "bench/simulated/curve_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/report/markup.h"
#include "core/report/palette.h"

namespace dpipe::bench {
namespace {

using report::EscapeMarkup;
using report::NumberText;
using report::Theme;

constexpr int kWidth = 960, kPlotHeight = 340;
constexpr int kLeft = 64, kRight = 16, kTop = 40, kLabels = 44, kLegendRow = 20;
constexpr int kLegendColumns = 3;

// One axis: a whole number of ticks around the data.
struct Scale {
  double low = 0, high = 0, tick = 1;
  double from = 0, to = 0;   // pixels
  bool logarithmic = false;  // then low, high and tick are powers of ten

  double At(double value) const {
    const double place = logarithmic ? std::log10(value) : value;
    return from + (to - from) * (place - low) / (high - low);
  }
  double Tick(int i) const {
    const double place = low + i * tick;
    return logarithmic ? std::pow(10, place) : place;
  }
  int NumTicks() const { return static_cast<int>(std::lround((high - low) / tick)) + 1; }
};

Scale ScaleOf(double min, double max, double from, double to, bool logarithmic = false) {
  Scale scale;
  scale.from = from;
  scale.to = to;
  scale.logarithmic = logarithmic;
  if (logarithmic) {
    scale.low = std::floor(std::log10(min));
    scale.high = std::ceil(std::log10(max));
    return scale;
  }
  scale.tick = report::NiceTick(max - min, 6);
  scale.low = std::floor(min / scale.tick) * scale.tick;
  scale.high = std::ceil(max / scale.tick) * scale.tick;
  return scale;
}

std::string Css(const CurveChart& chart) {
  std::string light, dark;
  for (int i = 0; i < static_cast<int>(chart.curves.size()); ++i) {
    const std::string dash = report::SeriesDash(i);
    absl::StrAppend(&light, ".c", i, "{stroke:", HexText(report::SeriesColor(Theme::kLight, i)),
                    dash.empty() ? "" : ";stroke-dasharray:", dash, "}");
    absl::StrAppend(&dark, ".c", i, "{stroke:", HexText(report::SeriesColor(Theme::kDark, i)), "}");
  }
  return absl::StrCat(
      "<style>text{font:12px system-ui,sans-serif;fill:#1b1b1f}.t{font-size:15px;font-weight:600}"
      ".s{fill:#fff}.g{stroke:#d8d8de}.l{fill:none;stroke-width:2}",
      light, ".d{stroke:#1b1b1f;stroke-width:3;stroke-dasharray:7 5}",
      "@media(prefers-color-scheme:dark){text{fill:#ececf1}.s{fill:#17171b}.g{stroke:#3a3a42}",
      dark, ".d{stroke:#ececf1}}</style>\n");
}

std::string Text(double x, double y, const char* anchor, const char* css_class,
                 const std::string& text) {
  return absl::StrCat("<text x=\"", NumberText(x), "\" y=\"", NumberText(y), "\" text-anchor=\"",
                      anchor, "\" class=\"", css_class, "\">", EscapeMarkup(text), "</text>\n");
}

std::string Line(double x1, double y1, double x2, double y2) {
  return absl::StrCat("<line class=\"g\" x1=\"", NumberText(x1), "\" y1=\"", NumberText(y1),
                      "\" x2=\"", NumberText(x2), "\" y2=\"", NumberText(y2), "\"/>\n");
}

std::string Axes(const CurveChart& chart, const Scale& x, const Scale& y) {
  std::string svg;
  for (int i = 0; i < y.NumTicks(); ++i) {
    const double value = y.Tick(i);
    svg += Line(x.from, y.At(value), x.to, y.At(value));
    svg += Text(kLeft - 8, y.At(value) + 4, "end", "a", NumberText(value));
  }
  for (int i = 0; i < x.NumTicks(); ++i) {
    const double value = x.Tick(i);
    const bool is_last = i == x.NumTicks() - 1;  // nothing may pass the picture's edge
    svg += Text(x.At(value) + (is_last ? kRight : 0), kTop + kPlotHeight + 18,
                is_last ? "end" : "middle", "a", NumberText(value));
  }
  if (!chart.y_unit.empty()) {
    absl::StrAppend(&svg, "<g transform=\"translate(14 ", kTop + kPlotHeight / 2,
                    ") rotate(-90)\">", Text(0, 0, "middle", "a", chart.y_unit), "</g>\n");
  }
  return svg + Text(x.to, kTop + kPlotHeight + 36, "end", "a", chart.x_unit);
}

bool IsShown(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second);
}

std::string Curves(const CurveChart& chart, const Scale& x, const Scale& y) {
  std::string svg, references;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    std::string points;
    for (const auto& point : chart.curves[i].points) {
      if (!IsShown(point)) continue;
      absl::StrAppend(&points, points.empty() ? "" : " ", NumberText(x.At(point.first)), ",",
                      NumberText(y.At(point.second)));
    }
    const bool is_reference = chart.curves[i].reference;
    absl::StrAppend(is_reference ? &references : &svg, "<polyline class=\"l c", i,
                    is_reference ? " d" : "", "\" points=\"", points, "\"><title>",
                    EscapeMarkup(chart.curves[i].name), "</title></polyline>\n");
  }
  return svg + references;
}

std::string Legend(const CurveChart& chart, int top) {
  std::string svg;
  const int column_width = (kWidth - kLeft - kRight) / kLegendColumns;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const int x = kLeft + static_cast<int>(i % kLegendColumns) * column_width;
    const int y = top + static_cast<int>(i / kLegendColumns) * kLegendRow;
    absl::StrAppend(&svg, "<line class=\"l c", i, chart.curves[i].reference ? " d" : "", "\" x1=\"",
                    x, "\" x2=\"", x + 24, "\" y1=\"", y + 7, "\" y2=\"", y + 7, "\"/>\n");
    svg += Text(x + 32, y + 11, "start", "a", chart.curves[i].name);
  }
  return svg;
}

}  // namespace

std::string CurveChartSvg(const CurveChart& chart) {
  const int legend_rows =
      static_cast<int>((chart.curves.size() + kLegendColumns - 1) / kLegendColumns);
  const int legend_top = kTop + kPlotHeight + kLabels + 8;
  const int height = legend_top + legend_rows * kLegendRow + 8;
  std::string svg =
      absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", height,
                   "\" width=\"", kWidth, "\" height=\"", height, "\" role=\"img\">\n", Css(chart),
                   "<rect class=\"s\" width=\"100%\" height=\"100%\"/>\n");
  svg += Text(kLeft, 20, "start", "t", chart.title);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double left = kInfinity, right = -kInfinity, low = kInfinity, high = -kInfinity;
  for (const Curve& curve : chart.curves) {
    for (const auto& point : curve.points) {
      if (!IsShown(point)) continue;
      left = std::min(left, point.first);
      right = std::max(right, point.first);
      low = std::min(low, point.second);
      high = std::max(high, point.second);
    }
  }
  if (!(left < right) || !(low < high)) {
    return svg + Text(kLeft, kTop + 40, "start", "a", "nothing to show") + "</svg>\n";
  }
  const Scale x = ScaleOf(left, right, kLeft, kWidth - kRight, chart.logarithmic_x);
  const Scale y = ScaleOf(low, high, kTop + kPlotHeight, kTop);
  return svg + Axes(chart, x, y) + Curves(chart, x, y) + Legend(chart, legend_top) + "</svg>\n";
}

}  // namespace dpipe::bench
