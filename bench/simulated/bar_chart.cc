#include "bench/simulated/bar_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/report/markup.h"
#include "core/report/palette.h"

namespace dpipe::bench {
namespace {

using report::EscapeMarkup;
using report::NumberText;

constexpr int kWidth = 960, kPlotHeight = 300;
constexpr int kLeft = 64, kRight = 16, kTop = 40, kLabels = 28, kLegendRow = 20;
constexpr int kLegendColumns = 4, kReferenceColumns = 2;
constexpr double kGroupGap = 0.2;  // of a group's width

struct Scale {
  double top = 0;  // value at the upper edge; 0: nothing to show
  double tick = 0;
  double Y(double value) const { return kTop + kPlotHeight * (1 - value / top); }
};

Scale ScaleOf(const BarChart& chart) {
  double largest = 0;
  for (const BarSeries& series : chart.series) {
    for (double value : series.values) {
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
  }
  Scale scale;
  if (largest <= 0) return scale;
  for (const ReferenceLine& line : chart.references) largest = std::max(largest, line.value);
  scale.tick = report::NiceTick(largest, 6);
  scale.top = std::ceil(largest / scale.tick) * scale.tick;
  return scale;
}

// Returns colours of about equal lightness, with hues as far apart as possible.
std::string SeriesCss(size_t count) {
  std::string light, dark;
  for (size_t i = 0; i < count; ++i) {
    const double hue = 250 + 360.0 * static_cast<double>(i) / static_cast<double>(count);
    const double step = i % 2 == 0 ? 0 : 0.12;  // neighbours also differ in lightness
    absl::StrAppend(&light, ".c", i,
                    "{fill:", report::HexText(report::OklchToRgb(0.55 + step, 0.12, hue)), "}");
    absl::StrAppend(&dark, ".c", i,
                    "{fill:", report::HexText(report::OklchToRgb(0.62 + step, 0.12, hue)), "}");
  }
  return absl::StrCat(
      "<style>text{font:12px system-ui,sans-serif;fill:#1b1b1f}.t{font-size:15px;font-weight:600}"
      ".s{fill:#fff}.g{stroke:#d8d8de}.r{stroke:#b3261e;stroke-width:1.5;"
      "stroke-dasharray:8 4}.r2{stroke-dasharray:2 3}",
      light,
      "@media(prefers-color-scheme:dark){text{fill:#ececf1}.s{fill:#17171b}.g{stroke:#3a3a42}"
      ".r{stroke:#ff8a80}",
      dark, "}</style>\n");
}

std::string Text(double x, double y, const std::string& anchor, const std::string& css_class,
                 const std::string& text) {
  return absl::StrCat("<text x=\"", NumberText(x), "\" y=\"", NumberText(y), "\" text-anchor=\"",
                      anchor, "\" class=\"", css_class, "\">", EscapeMarkup(text), "</text>\n");
}

std::string Line(double y, const std::string& css_class) {
  return absl::StrCat("<line x1=\"", kLeft, "\" x2=\"", kWidth - kRight, "\" y1=\"", NumberText(y),
                      "\" y2=\"", NumberText(y), "\" class=\"", css_class, "\"/>\n");
}

// The dash pattern tells reference lines apart.
const char* ReferenceClass(size_t number) { return number % 2 == 0 ? "" : " r2"; }

std::string Axis(const BarChart& chart, const Scale& scale) {
  std::string svg;
  for (int i = 0; i * scale.tick <= scale.top * 1.0001; ++i) {
    svg += Line(scale.Y(i * scale.tick), "g");
    svg += Text(kLeft - 8, scale.Y(i * scale.tick) + 4, "end", "a", NumberText(i * scale.tick));
  }
  return svg + Text(kLeft - 8, kTop - 12, "end", "a", chart.unit);
}

std::string Bars(const BarChart& chart, const Scale& scale) {
  const double group = static_cast<double>(kWidth - kLeft - kRight) / chart.groups.size();
  const double bar = group * (1 - kGroupGap) / chart.series.size();
  std::string svg;
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    const double left = kLeft + group * g;
    svg += Text(left + group / 2, kTop + kPlotHeight + 18, "middle", "a", chart.groups[g]);
    for (size_t s = 0; s < chart.series.size(); ++s) {
      if (g >= chart.series[s].values.size()) continue;
      const double value = chart.series[s].values[g];
      if (!std::isfinite(value)) continue;
      const double y = scale.Y(value);
      absl::StrAppend(&svg, "<rect class=\"c", s, "\" x=\"",
                      NumberText(left + group * kGroupGap / 2 + bar * s), "\" y=\"", NumberText(y),
                      "\" width=\"", NumberText(bar * 0.92), "\" height=\"",
                      NumberText(kTop + kPlotHeight - y), "\"><title>",
                      EscapeMarkup(chart.series[s].name), ", ", EscapeMarkup(chart.groups[g]), ": ",
                      NumberText(value), " ", EscapeMarkup(chart.unit), "</title></rect>\n");
    }
  }
  return svg;
}

// Reference lines are named here because names over the bars would be unreadable.
std::string ReferenceLegend(const BarChart& chart, int top) {
  std::string svg;
  const int column_width = (kWidth - kLeft - kRight) / kReferenceColumns;
  for (size_t i = 0; i < chart.references.size(); ++i) {
    const int x = kLeft + static_cast<int>(i % kReferenceColumns) * column_width;
    const int y = top + static_cast<int>(i / kReferenceColumns) * kLegendRow;
    absl::StrAppend(&svg, "<line x1=\"", x, "\" x2=\"", x + 34, "\" y1=\"", y + 7, "\" y2=\"",
                    y + 7, "\" class=\"r", ReferenceClass(i), "\"/>\n");
    svg += Text(x + 42, y + 11, "start", "a", chart.references[i].name);
  }
  return svg;
}

int Rows(size_t items, int columns) { return (static_cast<int>(items) + columns - 1) / columns; }

std::string Legend(const BarChart& chart, int top) {
  std::string svg;
  const int column_width = (kWidth - kLeft - kRight) / kLegendColumns;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const int x = kLeft + static_cast<int>(s % kLegendColumns) * column_width;
    const int y = top + static_cast<int>(s / kLegendColumns) * kLegendRow;
    absl::StrAppend(&svg, "<rect class=\"c", s, "\" x=\"", x, "\" y=\"", y,
                    "\" width=\"12\" height=\"12\"/>\n");
    svg += Text(x + 18, y + 11, "start", "a", chart.series[s].name);
  }
  return svg;
}

}  // namespace

std::string BarChartSvg(const BarChart& chart) {
  const int legend_top = kTop + kPlotHeight + kLabels + 8;
  const int references_top = legend_top + Rows(chart.series.size(), kLegendColumns) * kLegendRow;
  const int height =
      references_top + Rows(chart.references.size(), kReferenceColumns) * kLegendRow + 8;
  std::string svg = absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth,
                                 " ", height, "\" width=\"", kWidth, "\" height=\"", height,
                                 "\" role=\"img\">\n", SeriesCss(chart.series.size()),
                                 "<rect class=\"s\" width=\"100%\" height=\"100%\"/>\n");
  svg += Text(kLeft, 20, "start", "t", chart.title);
  const Scale scale = ScaleOf(chart);
  if (scale.top <= 0 || chart.groups.empty()) {
    return svg + Text(kLeft, kTop + 40, "start", "a", "nothing to show") + "</svg>\n";
  }
  svg += Axis(chart, scale) + Bars(chart, scale);
  for (size_t i = 0; i < chart.references.size(); ++i) {
    svg += Line(scale.Y(chart.references[i].value), absl::StrCat("r", ReferenceClass(i)));
  }
  return svg + Legend(chart, legend_top) + ReferenceLegend(chart, references_top) + "</svg>\n";
}

}  // namespace dpipe::bench
