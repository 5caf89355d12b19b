// Charts of pages with several cases: inline SVG, with HTML for names that may be long. Widths are
// percentages, so that a chart fills the available width.
#ifndef DPIPE_CORE_REPORT_PAGE_SUITE_CHARTS_H_
#define DPIPE_CORE_REPORT_PAGE_SUITE_CHARTS_H_

#include <string>
#include <vector>

#include "core/proto/results.pb.h"

namespace dpipe::report {

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

// Returns groups of cases with at least two numbers of devices, without results that do not count
// and without strategies measured on one number of devices only.
std::vector<DeviceCurves> CurvesByDevices(const Results& results);

// Returns a chart of lines over the number of devices. A dashed line shows linear scaling from the
// slowest strategy on the smallest number of devices.
std::string DevicesChart(const DeviceCurves& curves);

// One strategy's measurement over its prediction. Emulated steps are no measurements.
struct PredictionRow {
  std::string name;  // "1f1b", with the case if there are several
  double step = 1;
  double memory = 1;  // peak of the fullest device; NaN if unknown
};
std::vector<PredictionRow> PredictionRows(const Results& results);

// Returns a chart with a dot (step) and a square (memory) per row, left or right of the line where
// prediction and measurement agree, and a band of ±5 %.
std::string PredictionChart(const std::vector<PredictionRow>& rows);

// Returns the CSS classes of these charts, in addition to the other charts' (ChartCss).
std::string SuiteChartCss();

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_SUITE_CHARTS_H_
