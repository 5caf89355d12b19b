// The grid as tables for people and for programs.
#ifndef DPIPE_BENCH_PAPER_REPORT_H_
#define DPIPE_BENCH_PAPER_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/paper_grid.h"
#include "core/report/machine.h"

namespace dpipe::bench {

// Published by the paper, of its own systems, models and machines; never ours.
inline constexpr double kPublishedPipelineSpeedup = 1.41;
inline constexpr double kPublishedDataParallelSpeedup = 1.28;
inline constexpr double kPublishedBubbleRatio = 0.05;

// Where the numbers come from.
struct ReportSource {
  std::map<std::string, std::string> provenance;  // of profiles, by model
  std::string command_line;
  std::string date;               // when it was made, "2026-11-21"; empty: not said
  int64_t simulation_budget = 0;  // GridOptions's
  report::MachineInfo machine;    // that planned: planning times are its
};

// A Markdown document, and the pictures that it shows by name, beside it.
struct PaperReport {
  std::string markdown;
  std::map<std::string, std::string> pictures;  // file name -> SVG
};

// The grid's summary beside the published maxima; the combined grid, which are the results that
// hold diffusionpipe and opendiffusionpipe and nothing else; then for each model, of the other
// results: throughput of every strategy; speedups of either over data_parallel, zero3, gpipe, spp
// and the best pipeline that fills nothing; bubbles before and after filling, and the step over its
// bound; ablations; planning time. Each table has a plot. What could not be planned is "-", and why
// is said below its tables.
PaperReport MakePaperReport(const std::vector<CaseResult>& results, const ReportSource& source);

// Every outcome with all its numbers. Ends in a newline.
std::string PaperJson(const std::vector<CaseResult>& results, const ReportSource& source);

// What PaperJson wrote; empty where that was of another budget. InvalidArgument for anything else.
absl::StatusOr<std::vector<CaseResult>> ReadPaperJson(const std::string& text,
                                                      int64_t simulation_budget);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_PAPER_REPORT_H_
