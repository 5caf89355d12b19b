#include "bench/simulated/bar_chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/report/markup.h"
#include "core/report/palette.h"

namespace dpipe::bench {
namespace {

using report::EscapeMarkup;
using report::NumberText;
using report::Theme;

constexpr int kWidth = 960;
constexpr int kLeft = 64, kRight = 16, kTop = 60, kGroupNames = 36, kLegendRow = 20;
constexpr int kLegendColumns = 4, kReferenceColumns = 2;
constexpr int kPlotHeight = 300;     // of a single row of groups
constexpr int kRowPlotHeight = 200;  // of each of several
constexpr double kGroupGap = 0.2;    // of a group's width
constexpr double kMinBar = 11;       // pixels per bar, so that upright values do not overlap
constexpr double kDigit = 6.2;       // mean width of a digit of a value, in pixels
static_assert(kMaxHues == report::kNumSeriesColors);

// Three significant digits, and all before the point.
std::string ValueText(double value) {
  return absl::StrFormat("%.*f", value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value);
}

// Groups in rows of equally many, on one scale.
struct Layout {
  size_t rows = 1, groups_per_row = 1;
  int plot_height = kPlotHeight;
  double group = 0, bar = 0;  // widths
  bool upright = false;       // values
  int value_height = 0;       // room for a value above the highest bar
  double top = 0;             // value at the upper edge of the bars; 0: nothing to show
  double tick = 0;

  explicit Layout(const BarChart& chart) {
    double largest = 0;
    size_t longest = 0;
    for (const BarSeries& series : chart.series) {
      for (double value : series.values) {
        if (!std::isfinite(value)) continue;
        largest = std::max(largest, value);
        longest = std::max(longest, ValueText(value).size());
      }
    }
    if (largest <= 0 || chart.groups.empty()) return;
    for (const ReferenceLine& line : chart.references) largest = std::max(largest, line.value);
    tick = report::NiceTick(largest, 6);
    top = std::ceil(largest / tick) * tick;
    constexpr double kPlotWidth = kWidth - kLeft - kRight;
    const double narrowest = kMinBar * static_cast<double>(chart.series.size()) / (1 - kGroupGap);
    const auto fitting = static_cast<size_t>(std::max(1.0, kPlotWidth / narrowest));
    rows = (chart.groups.size() + fitting - 1) / fitting;
    groups_per_row = (chart.groups.size() + rows - 1) / rows;
    if (rows > 1) plot_height = kRowPlotHeight;
    group = kPlotWidth / static_cast<double>(groups_per_row);
    bar = group * (1 - kGroupGap) / static_cast<double>(chart.series.size());
    const double text = kDigit * static_cast<double>(longest);
    upright = bar < text + 2;
    value_height = upright ? static_cast<int>(text) + 6 : 16;
  }

  int row_height() const { return value_height + plot_height + kGroupNames; }
  double Bottom(size_t row) const {
    return static_cast<double>(kTop + static_cast<int>(row + 1) * row_height() - kGroupNames);
  }
  double Y(size_t row, double value) const { return Bottom(row) - plot_height * value / top; }
};

std::string SeriesCss(const BarChart& chart) {
  std::string light, dark;
  for (int i = 0; i < std::min(kMaxHues, static_cast<int>(chart.series.size())); ++i) {
    absl::StrAppend(&light, ".c", i, "{fill:", HexText(SeriesColor(Theme::kLight, i)), "}");
    absl::StrAppend(&dark, ".c", i, "{fill:", HexText(SeriesColor(Theme::kDark, i)), "}");
  }
  return absl::StrCat(
      "<style>text{font:12px system-ui,sans-serif;fill:#1b1b1f}.t{font-size:15px;font-weight:600}"
      ".v{font-size:10px;stroke:#fff;stroke-width:3;paint-order:stroke}.s{fill:#fff}.h{stroke:#fff}"
      ".g{stroke:#d8d8de}.r{stroke:#b3261e;"
      "stroke-width:1.5;stroke-dasharray:8 4}.r2{stroke-dasharray:2 3}",
      light,
      "@media(prefers-color-scheme:dark){text{fill:#ececf1}.s{fill:#17171b}.h,.v{stroke:#17171b}"
      ".g{stroke:#3a3a42}.r{stroke:#ff8a80}",
      dark, "}</style>\n");
}

// Stripes of the background's colour, in another direction for each round of the hues.
std::string Hatches(size_t num_series) {
  std::string svg;
  for (size_t round = 1; round * kMaxHues < num_series; ++round) {
    absl::StrAppend(&svg, "<pattern id=\"h", round,
                    "\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" "
                    "patternTransform=\"rotate(",
                    45 * round,
                    ")\"><path class=\"h\" d=\"M0 0V4\" stroke-width=\"2.4\"/>"
                    "</pattern>\n");
  }
  return svg.empty() ? svg : absl::StrCat("<defs>", svg, "</defs>\n");
}

// A bar or its mark in the legend. `title` may be empty.
std::string Box(size_t series, double x, double y, double width, double height,
                const std::string& title) {
  const std::string place =
      absl::StrCat("x=\"", NumberText(x), "\" y=\"", NumberText(y), "\" width=\"",
                   NumberText(width), "\" height=\"", NumberText(height), "\"");
  std::string svg =
      absl::StrCat("<rect class=\"c", series % kMaxHues, "\" ", place,
                   title.empty() ? "/>" : absl::StrCat("><title>", title, "</title></rect>"), "\n");
  if (series >= kMaxHues) {
    absl::StrAppend(&svg, "<rect fill=\"url(#h", series / kMaxHues, ")\" pointer-events=\"none\" ",
                    place, "/>\n");
  }
  return svg;
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

std::string Axis(const BarChart& chart, const Layout& layout, size_t row) {
  std::string svg;
  for (int i = 0; i * layout.tick <= layout.top * 1.0001; ++i) {
    const double y = layout.Y(row, i * layout.tick);
    svg += Line(y, "g");
    svg += Text(kLeft - 8, y + 4, "end", "a", NumberText(i * layout.tick));
  }
  return svg + Text(kLeft - 8, layout.Y(row, layout.top) - 12, "end", "a", chart.unit);
}

// A value above a bar whose upper edge has the centre (x, y).
std::string ValueSvg(const Layout& layout, double x, double y, double value) {
  if (!layout.upright) return Text(x, y - 4, "middle", "v", ValueText(value));
  return absl::StrCat("<g transform=\"translate(", NumberText(x + 3.5), " ", NumberText(y - 3),
                      ") rotate(-90)\">", Text(0, 0, "start", "v", ValueText(value)), "</g>\n");
}

// Returns the bars, a line per reference, and above both the values.
std::string Bars(const BarChart& chart, const Layout& layout) {
  std::string svg, values;
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    const size_t row = g / layout.groups_per_row;
    const double left = kLeft + layout.group * static_cast<double>(g % layout.groups_per_row);
    svg += Text(left + layout.group / 2, layout.Bottom(row) + 18, "middle", "a", chart.groups[g]);
    for (size_t s = 0; s < chart.series.size(); ++s) {
      if (g >= chart.series[s].values.size()) continue;
      const double value = chart.series[s].values[g];
      if (!std::isfinite(value)) continue;
      const double x = left + layout.group * kGroupGap / 2 + layout.bar * static_cast<double>(s);
      const double y = layout.Y(row, value), width = layout.bar * 0.92;
      svg +=
          Box(s, x, y, width, layout.Bottom(row) - y,
              absl::StrCat(EscapeMarkup(chart.series[s].name), ", ", EscapeMarkup(chart.groups[g]),
                           ": ", NumberText(value), " ", EscapeMarkup(chart.unit)));
      values += ValueSvg(layout, x + width / 2, y, value);
    }
  }
  for (size_t i = 0; i < chart.references.size(); ++i) {
    for (size_t row = 0; row < layout.rows; ++row) {
      svg += Line(layout.Y(row, chart.references[i].value), absl::StrCat("r", ReferenceClass(i)));
    }
  }
  return svg + values;
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
    svg += Box(s, x, y, 12, 12, "");
    svg += Text(x + 18, y + 11, "start", "a", chart.series[s].name);
  }
  return svg;
}

}  // namespace

std::string BarChartSvg(const BarChart& chart) {
  const Layout layout(chart);
  const int legend_top = kTop + static_cast<int>(layout.rows) * layout.row_height();
  const int references_top = legend_top + Rows(chart.series.size(), kLegendColumns) * kLegendRow;
  const int height =
      references_top + Rows(chart.references.size(), kReferenceColumns) * kLegendRow + 8;
  std::string svg = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", height,
      "\" width=\"", kWidth, "\" height=\"", height, "\" role=\"img\">\n", SeriesCss(chart),
      Hatches(chart.series.size()), "<rect class=\"s\" width=\"100%\" height=\"100%\"/>\n");
  svg += Text(kLeft, 20, "start", "t", chart.title);
  svg += Text(kLeft, 38, "start", "a", chart.origin);
  if (layout.top <= 0) {
    return svg + Text(kLeft, kTop + 40, "start", "a", "nothing to show") + "</svg>\n";
  }
  for (size_t row = 0; row < layout.rows; ++row) svg += Axis(chart, layout, row);
  svg += Bars(chart, layout);
  return svg + Legend(chart, legend_top) + ReferenceLegend(chart, references_top) + "</svg>\n";
}

}  // namespace dpipe::bench
