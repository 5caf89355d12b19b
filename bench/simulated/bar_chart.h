// Charts of grouped bars as stand-alone SVG files.
#ifndef DPIPE_BENCH_SIMULATED_BAR_CHART_H_
#define DPIPE_BENCH_SIMULATED_BAR_CHART_H_

#include <string>
#include <vector>

namespace dpipe::bench {

struct BarSeries {
  std::string name;
  std::vector<double> values;  // one per group; NaN: no bar
};

// A value to compare with, drawn as a dashed line and named in the legend: "published: up to
// 1.28x".
struct ReferenceLine {
  std::string name;
  double value = 0;
};

struct BarChart {
  std::string title;
  std::string origin;  // of the values, below the title: "simulated, not measured"
  std::string unit;    // of the axis: "images/s", "x"
  std::vector<std::string> groups;
  std::vector<BarSeries> series;
  std::vector<ReferenceLine> references;
};

// Returns the chart as SVG, light or dark as the reader's system is set. Every bar has its value
// above it, upright if it is narrow; groups continue in further rows if bars would be too narrow.
// Beyond kMaxHues series, hues repeat with hatched bars. Values must not be negative. A chart
// without values says so. Deterministic.
inline constexpr int kMaxHues = 8;
std::string BarChartSvg(const BarChart& chart);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_BAR_CHART_H_
