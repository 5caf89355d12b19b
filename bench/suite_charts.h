// Charts of a suite's page: inline SVG, names in HTML where they may be long. Widths are
// percentages: a chart is as wide as its place.
#ifndef DPIPE_BENCH_SUITE_CHARTS_H_
#define DPIPE_BENCH_SUITE_CHARTS_H_

#include <string>
#include <vector>

#include "bench/suite_results.h"
#include "core/report/results.h"

namespace dpipe::bench {

// One strategy's throughput by number of devices.
struct DeviceCurve {
  std::string strategy;
  std::vector<std::pair<int, double>> points;  // devices and images per second, rising devices
};

// Curves of cases that differ in the number of devices alone.
struct DeviceCurves {
  std::string title;  // "tiny_sd, cpu, batch 16"
  std::vector<DeviceCurve> curves;
};

// Groups of cases with two numbers of devices at least; what does not count is left out.
std::vector<DeviceCurves> CurvesByDevices(const SuiteResults& results);

// Lines over devices, with a dashed one for throughput in proportion to devices from the slowest
// start.
std::string DevicesChart(const DeviceCurves& curves);

// One executed strategy's step, predicted over measured.
struct PredictionRow {
  std::string name;  // "tiny_sd, 2 devices: 1f1b"
  double ratio = 1;
};
std::vector<PredictionRow> PredictionRows(const SuiteResults& results);

// A dot a row, left or right of a line where prediction and measurement agree; a band of ±5 %.
std::string PredictionChart(const std::vector<PredictionRow>& rows);

// A bar a strategy: the idle share of its devices' time, divided by reason. All on one scale.
std::string BubbleChart(const report::BenchResults& results);

// Classes of these charts, beside the report's own.
std::string SuiteChartCss();

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_CHARTS_H_
