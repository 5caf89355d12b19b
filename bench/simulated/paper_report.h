// The grid's results as Markdown tables and as JSON.
#ifndef DPIPE_BENCH_SIMULATED_PAPER_REPORT_H_
#define DPIPE_BENCH_SIMULATED_PAPER_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/simulated/paper_grid.h"
#include "core/report/machine.h"

namespace dpipe::bench {

// Numbers published by the paper for its own systems, models and machines; never this project's.
inline constexpr double kPublishedPipelineSpeedup = 1.41;
inline constexpr double kPublishedDataParallelSpeedup = 1.28;
inline constexpr double kPublishedBubbleRatio = 0.05;

// The origin of the numbers.
struct ReportSource {
  std::map<std::string, std::string> provenance;  // of profiles, by model
  std::string command_line;
  std::string date;               // "2026-11-21"; empty: not stated
  int64_t simulation_budget = 0;  // as in GridOptions
  MachineInfo machine;            // that planned, and whose planning times are shown
};

// A Markdown document, and the pictures that it refers to by name.
struct PaperReport {
  std::string markdown;
  std::map<std::string, std::string> pictures;  // file name -> SVG
};

// Returns the report on the grid:
// 1. a summary beside the published maxima;
// 2. the maps (win_map.h): which strategy wins over link speeds, and in fine-tuning;
// 3. the combined grid: the results with diffusionpipe and opendiffusionpipe only;
// 4. for each model of the other results: throughput of every strategy; speedups of diffusionpipe
//    and opendiffusionpipe over data_parallel, zero3, gpipe, spp and the best unfilled pipeline;
//    bubbles before and after filling, and step over lower bound; planning time; ablations.
// Each table in 4 has a plot. Chapters without results are left out. A strategy without a plan is
// "-", with the reason below the tables.
PaperReport MakePaperReport(const std::vector<GridResult>& results, const ReportSource& source);

// Returns every outcome with all its numbers. Ends in a newline.
std::string PaperJson(const std::vector<GridResult>& results, const ReportSource& source);

// Parses PaperJson's output. Returns no results if it has another simulation budget, and
// InvalidArgument if it is anything else.
absl::StatusOr<std::vector<GridResult>> ReadPaperJson(const std::string& text,
                                                      int64_t simulation_budget);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SIMULATED_PAPER_REPORT_H_
