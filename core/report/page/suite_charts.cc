#include "core/report/page/suite_charts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/report/markup.h"
#include "core/report/page/html_charts.h"
#include "core/report/palette.h"
#include "core/report/results/results.h"
#include "core/report/results/results_table.h"

namespace dpipe::report {
namespace {

constexpr double kHalfRange = 0.20;  // of the prediction chart
constexpr double kBand = 0.05;

std::string OpenSvg(int height, const std::string& label) {
  return absl::StrCat("<svg width=\"100%\" height=\"", height, "\" role=\"img\" aria-label=\"",
                      EscapeMarkup(label), "\">\n");
}

std::string Text(const std::string& x, double y, const std::string& text,
                 const std::string& attributes = "") {
  return absl::StrCat("<text x=\"", x, "\" y=\"", NumberText(y), "\" font-size=\"12\" ", attributes,
                      ">", EscapeMarkup(text), "</text>");
}

// Axes of one chart: positions of devices, evenly spaced, and of throughputs.
struct Axes {
  std::vector<int> devices;
  double top = 0;

  double X(int num_devices) const {
    const auto at = std::find(devices.begin(), devices.end(), num_devices) - devices.begin();
    const double room = static_cast<double>(devices.size()) - 1;
    return 6 + 88 * static_cast<double>(at) / std::max(1.0, room);
  }
  double Y(double value) const { return 100 * (1 - value / top); }
};

Axes AxesOf(const DeviceCurves& curves) {
  Axes axes;
  for (const DeviceCurve& curve : curves.curves) {
    for (const auto& [devices, value] : curve.points) {
      if (std::find(axes.devices.begin(), axes.devices.end(), devices) == axes.devices.end()) {
        axes.devices.push_back(devices);
      }
      axes.top = std::max(axes.top, value);
    }
  }
  std::sort(axes.devices.begin(), axes.devices.end());
  axes.top *= 1.1;
  return axes;
}

std::string Polyline(const std::string& attributes, const Axes& axes,
                     const std::vector<std::pair<int, double>>& points) {
  std::string svg = absl::StrCat("<polyline ", attributes, " points=\"");
  for (const auto& [devices, value] : points) {
    absl::StrAppend(&svg, NumberText(axes.X(devices)), ",", NumberText(axes.Y(value)), " ");
  }
  return svg + "\"/>\n";
}

// Returns linear scaling from the slowest curve at the smallest number of devices.
std::vector<std::pair<int, double>> Ideal(const DeviceCurves& curves, const Axes& axes) {
  double start = axes.top;
  for (const DeviceCurve& curve : curves.curves) {
    if (curve.points[0].first == axes.devices[0]) start = std::min(start, curve.points[0].second);
  }
  std::vector<std::pair<int, double>> points;
  for (const int devices : axes.devices) {
    points.emplace_back(devices, start * devices / axes.devices[0]);
  }
  return points;
}

}  // namespace

std::vector<DeviceCurves> CurvesByDevices(const Results& results) {
  // By title, then strategy, both in the order of first appearance.
  std::vector<DeviceCurves> groups;
  for (const CaseResult& found : results.cases()) {
    const std::string title = absl::StrCat(found.model(), ", ", found.backend(), ", batch ",
                                           found.global_batch(), ", ", found.dtype());
    const CaseAnalysis analysis = AnalyseCase(found);
    for (const StrategyAnalysis& strategy : analysis.strategies) {
      const StrategyResult& result = *strategy.result;
      if (!Counts(result)) continue;
      auto group = std::find_if(groups.begin(), groups.end(),
                                [&](const DeviceCurves& g) { return g.title == title; });
      if (group == groups.end()) group = groups.insert(groups.end(), {title, {}});
      auto curve =
          std::find_if(group->curves.begin(), group->curves.end(),
                       [&](const DeviceCurve& c) { return c.strategy == result.strategy(); });
      if (curve == group->curves.end()) {
        curve = group->curves.insert(curve, {result.strategy(), {}});
      }
      curve->points.emplace_back(found.num_devices(), strategy.images_per_second.estimate);
    }
  }
  for (DeviceCurves& group : groups) {
    group.curves.erase(std::remove_if(group.curves.begin(), group.curves.end(),
                                      [](const DeviceCurve& c) { return c.points.size() < 2; }),
                       group.curves.end());
    for (DeviceCurve& curve : group.curves) std::sort(curve.points.begin(), curve.points.end());
  }
  groups.erase(std::remove_if(groups.begin(), groups.end(),
                              [](const DeviceCurves& g) { return AxesOf(g).devices.size() < 2; }),
               groups.end());
  return groups;
}

std::string DevicesChart(const DeviceCurves& curves) {
  constexpr int kHeight = 250, kTop = 8, kBottom = 26;
  const Axes axes = AxesOf(curves);
  const int plot = kHeight - kTop - kBottom;
  std::string svg = "<ul class=\"legend\">";
  for (size_t i = 0; i < curves.curves.size(); ++i) {
    absl::StrAppend(&svg, "<li><svg width=\"26\" height=\"10\"><line ",
                    SeriesAttributes(static_cast<int>(i)),
                    " x1=\"1\" x2=\"25\" y1=\"5\" y2=\"5\"/></svg>",
                    EscapeMarkup(curves.curves[i].strategy), "</li>");
  }
  absl::StrAppend(&svg, "</ul>\n", OpenSvg(kHeight, "images per second by devices"));
  const double tick = NiceTick(axes.top, 5);
  for (double value = 0; value <= axes.top; value += tick) {
    const double y = kTop + plot * axes.Y(value) / 100;
    absl::StrAppend(&svg, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"", NumberText(y),
                    "\" y2=\"", NumberText(y), "\"/>",
                    Text("0", y - 3, NumberText(value), "class=\"mut\""));
  }
  absl::StrAppend(
      &svg, "<svg x=\"0\" y=\"", kTop, "\" width=\"100%\" height=\"", plot,
      "\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\">\n",
      Polyline("class=\"curve ideal\" stroke-dasharray=\"3 4\"", axes, Ideal(curves, axes)));
  for (size_t i = 0; i < curves.curves.size(); ++i) {
    svg += Polyline(SeriesAttributes(static_cast<int>(i)), axes, curves.curves[i].points);
  }
  svg += "</svg>\n";
  for (const int devices : axes.devices) {
    // Outer labels would be cut off if they were centred.
    const char* anchor = devices == axes.devices.front()  ? "start"
                         : devices == axes.devices.back() ? "end"
                                                          : "middle";
    svg += Text(NumberText(axes.X(devices)) + "%", kHeight - 6,
                absl::StrCat(devices, devices == 1 ? " device" : " devices"),
                absl::StrCat("class=\"mut\" text-anchor=\"", anchor, "\""));
  }
  return svg + "</svg>\n";
}

std::vector<PredictionRow> PredictionRows(const Results& results) {
  std::vector<PredictionRow> rows;
  for (const CaseResult& one : results.cases()) {
    if (one.backend() == kEmulatedBackend) continue;
    const CaseAnalysis analysis = AnalyseCase(one);
    for (const StrategyAnalysis& strategy : analysis.strategies) {
      const StrategyResult& result = *strategy.result;
      PredictionRow row;
      row.name = result.strategy();
      if (results.cases_size() > 1) row.name = absl::StrCat(CaseTitle(one), ": ", row.name);
      row.step = strategy.step_ms / result.step_ms_predicted();
      const int64_t memory = PeakMemoryBytes(result), expected = PredictedPeakMemoryBytes(result);
      row.memory = memory > 0 && expected > 0
                       ? static_cast<double>(memory) / static_cast<double>(expected)
                       : NAN;
      if (WasExecuted(result) && !std::isnan(row.step)) rows.push_back(row);
    }
  }
  return rows;
}

std::string PredictionChart(const std::vector<PredictionRow>& rows) {
  constexpr int kRowPx = 12, kAxisPx = 16;
  const auto percent = [](double ratio) {
    const double off = std::clamp(ratio - 1, -kHalfRange, kHalfRange);
    return NumberText(50 + 48 * off / kHalfRange) + "%";
  };
  std::string axis;
  for (const double ratio : {1 - kHalfRange, 1 - kBand, 1.0, 1 + kBand, 1 + kHalfRange}) {
    const char* anchor = ratio < 0.9 ? "start" : ratio > 1.1 ? "end" : "middle";
    axis += Text(percent(ratio), 11, absl::StrFormat("%+.0f %%", 100 * (ratio - 1)),
                 absl::StrCat("class=\"mut\" text-anchor=\"", anchor, "\""));
  }
  std::string html =
      absl::StrCat(OpenSvg(kAxisPx, "measured over predicted"), axis,
                   "</svg>\n<ul class=\"rows\" aria-label=\"measured over predicted\">\n");
  const std::string ground =
      absl::StrCat("<rect class=\"band\" x=\"", percent(1 - kBand), "\" width=\"",
                   NumberText(48 * 2 * kBand / kHalfRange), "%\" height=\"", kRowPx,
                   "\"/><line class=\"ref\" x1=\"50%\" x2=\"50%\" y1=\"0\" y2=\"", kRowPx, "\"/>");
  for (const PredictionRow& row : rows) {
    std::string value = absl::StrFormat("step %+.1f %%", 100 * (row.step - 1));
    std::string marks = absl::StrCat(ground, "<circle class=\"bar best\" cx=\"", percent(row.step),
                                     "\" cy=\"", kRowPx / 2, "\" r=\"5\"/>");
    if (!std::isnan(row.memory)) {
      absl::StrAppendFormat(&value, " · memory %+.1f %%", 100 * (row.memory - 1));
      absl::StrAppend(&marks, "<svg x=\"", percent(row.memory),
                      "\" overflow=\"visible\"><rect class=\"bar memory\" x=\"-4\" y=\"2\" "
                      "width=\"8\" height=\"8\"/></svg>");
    }
    html += ChartRowHtml(row.name, value, kRowPx, marks);
  }
  return html + "</ul>\n";
}

std::string SuiteChartCss() {
  return ".band{fill:var(--line);opacity:.5}.ideal{stroke:var(--muted)}"
         ".grid{stroke:var(--line)}.bar.memory{fill:none;stroke:var(--fg);stroke-width:1.5}"
         "section h3{margin-top:14px}\n";
}

}  // namespace dpipe::report
