// Charts of a suite's page: inline SVG, with HTML for names that may be long. Widths are
// percentages, so that a chart fills the available width.
#ifndef DPIPE_BENCH_SUITE_RUNNER_SUITE_CHARTS_H_
#define DPIPE_BENCH_SUITE_RUNNER_SUITE_CHARTS_H_

#include <string>
#include <vector>

#include "bench/suite_runner/suite_results.h"
#include "core/report/results.h"

namespace dpipe::bench {

// One strategy's throughput by number of devices.
struct DeviceCurve {
  std::string strategy;
  std::vector<std::pair<int, double>> points;  // increasing devices, and images per second
};

// Curves of cases that differ only in the number of devices.
struct DeviceCurves {
  std::string title;  // "tiny_sd, cpu, batch 16"
  std::vector<DeviceCurve> curves;
};

// Returns groups of cases with at least two numbers of devices, without results that do not count.
std::vector<DeviceCurves> CurvesByDevices(const SuiteResults& results);

// Returns a chart of lines over the number of devices. A dashed line shows linear scaling from the
// slowest strategy on the smallest number of devices.
std::string DevicesChart(const DeviceCurves& curves);

// One executed strategy's predicted step over its measured step.
struct PredictionRow {
  std::string name;  // "tiny_sd, 2 devices: 1f1b"
  double ratio = 1;
};
std::vector<PredictionRow> PredictionRows(const SuiteResults& results);

// Returns a chart with a dot per row, left or right of the line where prediction and measurement
// agree, and a band of ±5 %.
std::string PredictionChart(const std::vector<PredictionRow>& rows);

// Returns a chart with a bar per strategy: the idle share of its devices' time, divided by reason,
// all on one scale.
std::string BubbleChart(const report::BenchResults& results);

// Returns the CSS classes of these charts, in addition to the report's own.
std::string SuiteChartCss();

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUNNER_SUITE_CHARTS_H_
