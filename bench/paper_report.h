// The grid as tables for people and for programs.
#ifndef DPIPE_BENCH_PAPER_REPORT_H_
#define DPIPE_BENCH_PAPER_REPORT_H_

#include <map>
#include <string>
#include <vector>

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
  report::MachineInfo machine;  // that planned: planning times are its
};

// A Markdown document, and the pictures that it shows by name, beside it.
struct PaperReport {
  std::string markdown;
  std::map<std::string, std::string> pictures;  // file name -> SVG
};

// For each model five tables, each with a plot: throughput of every strategy; speedups of
// diffusionpipe over data_parallel, zero3, gpipe, spp and the best of all pipelines, and of the
// best filled strategy over diffusionpipe; bubbles before and after filling; ablations; planning
// time. What could not be planned is "-", and why is said below its table.
PaperReport MakePaperReport(const std::vector<CaseResult>& results, const ReportSource& source);

// Every outcome with all its numbers. Ends in a newline.
std::string PaperJson(const std::vector<CaseResult>& results, const ReportSource& source);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_PAPER_REPORT_H_
