// Charts of the report page: inline SVG, names in HTML where they may be long. Widths are
// percentages: a chart is as wide as its place.
#ifndef DPIPE_CORE_REPORT_HTML_CHARTS_H_
#define DPIPE_CORE_REPORT_HTML_CHARTS_H_

#include <string>
#include <vector>

#include "core/report/bubbles.h"
#include "core/report/results.h"

namespace dpipe::report {

// What statistics say of a strategy's samples, to be drawn beside them.
struct SampleMarks {
  double low = kNotMeasured;  // the median's confidence interval, images per second
  double high = kNotMeasured;
  std::vector<bool> outliers;  // by sample; drawn as rings
  int warm_up = 0;             // so many first samples are drawn faintly
};

// One row of a chart, to stand in <ul class="rows">: a name, which wraps where there is no room for
// it, and a value at the right edge; below them `drawing`, the inside of an <svg> that is as wide
// as the page and `height_px` high. Name and value are texts, not markup.
std::string ChartRowHtml(const std::string& name, const std::string& value, int height_px,
                         const std::string& drawing);

// A bar a strategy: median images per second, every sample as a dot, its speedup. A dashed line
// marks data_parallel. The fastest stands out. `marks` is empty, or has one for each result.
std::string ThroughputChart(const BenchResults& results,
                            const std::vector<SampleMarks>& marks = {});

// Strategies whose losses are equal in every bit are one curve.
struct LossGroup {
  std::vector<std::string> strategies;
  std::vector<double> losses;
  // Largest |difference| to the first group's losses, step by step.
  double max_difference = 0;
};

// In the order of `results`; strategies without losses are left out.
std::vector<LossGroup> GroupLosses(const BenchResults& results);

std::string LossChart(const std::vector<LossGroup>& groups);

// A bar a device that shows which share of a step went where: passes, frozen work, the rest of the
// work, idle time by reason. `stages` holds a stage of each device, whose hue it takes; `id_prefix`
// begins the ids of its elements.
std::string DeviceTimeChart(const std::vector<DeviceTime>& devices, const std::vector<int>& stages,
                            const std::string& id_prefix);

// Classes of the charts that take their colours from the palette.
std::string ChartCss();

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_HTML_CHARTS_H_
