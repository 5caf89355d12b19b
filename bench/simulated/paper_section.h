// Tables with plots, from which paper_report is composed.
#ifndef DPIPE_BENCH_SIMULATED_PAPER_SECTION_H_
#define DPIPE_BENCH_SIMULATED_PAPER_SECTION_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/simulated/bar_chart.h"
#include "bench/simulated/paper_grid.h"
#include "bench/simulated/paper_report.h"

namespace dpipe::bench {

inline constexpr char kPlain[] = "diffusionpipe";
inline constexpr char kCombined[] = "opendiffusionpipe";

using Cases = std::vector<const GridResult*>;  // of one model

// The origin of most values, for pictures.
inline constexpr char kSimulated[] = "simulated, not measured";

// A column of a table and a series of its plot.
struct Column {
  std::string name;
  std::function<double(const GridResult&)> value;  // NaN: none
};

struct Section {
  std::string key;  // for the picture's file name
  std::string title;
  std::string intro;  // a paragraph
  std::string unit;
  std::string origin = kSimulated;
  double scale = 1;         // factor on values in the plot
  bool per_device = false;  // the plot divides values by the number of devices
  std::vector<Column> columns;
  std::function<std::string(double)> text;
  std::vector<ReferenceLine> references;
  // An additional last column of text, not plotted; empty: none.
  std::string remark_name;
  std::function<std::string(const GridResult&)> remark;
};

// Return "-" for values that are not finite.
std::string RateText(double value);
std::string RatioText(double value);  // "1.28x"

// Returns "1f1b, 8 stages, 8 x 2 samples, groups of 4", or "-" for null.
std::string ShapeText(const Outcome* outcome);
// Returns the fastest pipeline that does not fill its bubbles, or null if there is none. Unless
// `two_copies`, excludes chimera and bitpipe, which hold every layer twice. On two devices, each of
// them would hold the whole model, which is data parallelism by another name.
const Outcome* BestUnfilled(const GridResult& c, bool two_copies);

// Returns step over lower bound; NaN for null.
double OverBound(const Outcome* outcome);

// Appends the section's heading, table and picture, with one row per case.
void AppendSection(const Section& section, const std::string& model, const Cases& cases,
                   PaperReport* out);

// Appends the chapter on the combined grid; nothing if there are no such results.
void AppendCombinedGrid(const std::vector<std::pair<std::string, Cases>>& by_model,
                        PaperReport* out);

// Returns the first chapter: published maxima, the results here, and where they fall short.
std::string SummaryText(const Cases& cases);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_PAPER_SECTION_H_
