// A table of the paper's comparison with its plot: what paper_report's chapters are made of.
#ifndef DPIPE_BENCH_PAPER_SECTION_H_
#define DPIPE_BENCH_PAPER_SECTION_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/bar_chart.h"
#include "bench/paper_grid.h"
#include "bench/paper_report.h"

namespace dpipe::bench {

inline constexpr char kPlain[] = "diffusionpipe";
inline constexpr char kCombined[] = "opendiffusionpipe";

using Cases = std::vector<const CaseResult*>;  // of one model

// A column of a table and a series of its plot.
struct Column {
  std::string name;
  std::function<double(const CaseResult&)> value;  // NaN: none
};

struct Section {
  std::string key;  // of the picture's file name
  std::string title;
  std::string intro;  // a paragraph
  std::string unit;
  double scale = 1;         // of values in the plot
  bool per_device = false;  // the plot shows values over the number of devices
  std::vector<Column> columns;
  std::function<std::string(double)> text;
  std::vector<ReferenceLine> references;
  // A last column of text, not plotted; empty: none.
  std::string remark_name;
  std::function<std::string(const CaseResult&)> remark;
};

// "-" for what is not finite.
std::string RateText(double value);
std::string RatioText(double value);  // "1.28x"

// "1f1b, 8 stages, 8 x 2 samples, groups of 4", or "-" for null.
std::string ShapeText(const Outcome* outcome);
// The fastest pipeline that fills nothing; without `two_copies` only such as hold a layer once (all
// but chimera and bitpipe: on two devices each of these holds the whole model, which is data
// parallelism by another name). Null if there is none.
const Outcome* BestUnfilled(const CaseResult& c, bool two_copies);

// Step over bound; NaN for null.
double OverBound(const Outcome* outcome);

// Adds the section's heading, table and picture, a row a case.
void AppendSection(const Section& section, const std::string& model, const Cases& cases,
                   PaperReport* out);

// The chapter of the combined grid; nothing where there are no such results.
void AppendCombinedGrid(const std::vector<std::pair<std::string, Cases>>& by_model,
                        PaperReport* out);

// The chapter before all: published maxima and what was found here, and where it falls short.
std::string SummaryText(const Cases& cases);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_PAPER_SECTION_H_
