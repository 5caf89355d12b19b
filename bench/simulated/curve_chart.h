// Charts of curves as stand-alone SVG files.
#ifndef DPIPE_BENCH_SIMULATED_CURVE_CHART_H_
#define DPIPE_BENCH_SIMULATED_CURVE_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace dpipe::bench {

struct Curve {
  std::string name;
  // In increasing order of x. Points that are not finite are skipped.
  std::vector<std::pair<double, double>> points;
  bool reference = false;  // the baseline of the others: dashed, drawn over them
};

struct CurveChart {
  std::string title;
  std::string x_unit, y_unit;
  std::vector<Curve> curves;
  bool logarithmic_x = false;  // all x are then positive, and ticks are at powers of ten
};

// Returns the chart as SVG, light or dark as the reader's system is set. Axes begin at the smallest
// points; y_unit runs along the y axis. A chart without two distinct points says so. Deterministic.
std::string CurveChartSvg(const CurveChart& chart);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_CURVE_CHART_H_
