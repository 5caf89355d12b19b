// Charts of the report page: inline SVG, with names in HTML if they may be long. Widths are
// percentages: a chart fills its container.
#ifndef DPIPE_CORE_REPORT_PAGE_HTML_CHARTS_H_
#define DPIPE_CORE_REPORT_PAGE_HTML_CHARTS_H_

#include <string>
#include <vector>

#include "core/proto/results.pb.h"
#include "core/report/results/case_analysis.h"
#include "core/report/table.h"
#include "core/report/timeline/bubbles.h"

namespace dpipe::report {

// How a strategy's row stands out in charts and tables.
struct RowMark {
  std::string css_class;  // "best", "apart" or ""
  std::string text;       // beside its name: "fastest"
};

// Returns the mark of the fastest comparable strategy, of an upper reference, or none.
RowMark MarkOf(const CaseAnalysis& analysis, const StrategyResult& result);

// Returns a table that scrolls sideways if it has to, and becomes a list of cards on a phone.
// `marks` are by row; later rows have none.
std::string TableHtml(const Table& table, const std::vector<RowMark>& marks = {});

// Returns one row of a chart, for use in <ul class="rows">: a name, which wraps if it is too long,
// and a value at the right edge. Below them is `drawing`, the content of an <svg> as wide as the
// page and `height_px` high. Name and value are plain text, not markup.
std::string ChartRowHtml(const std::string& name, const std::string& value, int height_px,
                         const std::string& drawing, const RowMark& mark = {});

// Draws one bar per strategy: the median of images per second with its interval, every turn as a
// dot (outliers as rings, warm-up faintly), and the speedup with its interval. A dashed line marks
// data_parallel. The fastest comparable strategy and upper references are marked.
std::string ThroughputChart(const CaseAnalysis& analysis);

// Draws one bar per strategy, all on one scale: the idle share of its devices' time as in the
// table, divided by reason as in its typical turn. Empty if nothing is known.
std::string BubbleChart(const CaseResult& results);

// Strategies whose losses have the same bits; drawn as one curve.
struct LossGroup {
  std::vector<std::string> strategies;
  std::vector<double> losses;
  // Largest |difference| from the first group's losses, step by step.
  double max_difference = 0;
};

// Groups strategies in the order of `results`; omits strategies without losses.
std::vector<LossGroup> GroupLosses(const CaseResult& results);

std::string LossChart(const std::vector<LossGroup>& groups);

// Draws one bar per device with the shares of a step: passes, frozen work, other work, and idle
// time by reason. `stages` gives the stage whose hue each device takes. `id_prefix` is prepended to
// the ids of its elements.
std::string DeviceTimeChart(const std::vector<DeviceTime>& devices, const std::vector<int>& stages,
                            const std::string& id_prefix);

// Returns the CSS of the chart classes, with colours from the palette.
std::string ChartCss();

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_HTML_CHARTS_H_
