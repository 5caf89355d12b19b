// A chart of curves as a stand-alone SVG file.
#ifndef DPIPE_BENCH_CURVE_CHART_H_
#define DPIPE_BENCH_CURVE_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace dpipe::bench {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x increasing; what is not finite is left out
  bool reference = false;  // what the others are compared with: dashed, over all of them
};

struct CurveChart {
  std::string title;
  std::string x_unit, y_unit;
  std::vector<Curve> curves;
};

// Axes begin where the points do; y_unit stands along the y axis. Light and dark after the reader's
// system; a chart without two different points says so. Deterministic.
std::string CurveChartSvg(const CurveChart& chart);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_CURVE_CHART_H_
