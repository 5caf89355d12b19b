// A chart of grouped bars as a stand-alone SVG file.
#ifndef DPIPE_BENCH_BAR_CHART_H_
#define DPIPE_BENCH_BAR_CHART_H_

#include <string>
#include <vector>

namespace dpipe::bench {

struct BarSeries {
  std::string name;
  std::vector<double> values;  // one a group; NaN: no bar
};

// A level to compare with, drawn as a dashed line and named below: "published: up to 1.28x".
struct ReferenceLine {
  std::string name;
  double value = 0;
};

struct BarChart {
  std::string title;
  std::string unit;  // of the axis: "images/s", "x"
  std::vector<std::string> groups;
  std::vector<BarSeries> series;
  std::vector<ReferenceLine> references;
};

// Light and dark after the reader's system. Values are not negative; a chart without any value says
// so. Deterministic.
std::string BarChartSvg(const BarChart& chart);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_BAR_CHART_H_
