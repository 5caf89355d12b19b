// Emulated cases as tables and JSON.
#ifndef DPIPE_BENCH_EMULATION_EMULATION_REPORT_H_
#define DPIPE_BENCH_EMULATION_EMULATION_REPORT_H_

#include <string>
#include <vector>

#include "bench/emulation/emulation_case.h"
#include "core/report/machine.h"

namespace dpipe::bench {

struct EmulationReport {
  std::string command_line;
  std::string date;
  MachineInfo machine;
  EmulateOptions options;
  std::vector<EmulationResult> results;
};

// Differences between the emulated and the simulated step times of some results.
struct EmulationSummary {
  int num_run = 0;
  int num_invalid = 0;  // with wrong losses
  double median = 0;    // absolute value of the difference
  double worst = 0;
  const EmulationResult* worst_result = nullptr;
};
EmulationSummary Summarize(const std::vector<EmulationResult>& results);

// Returns a summary, and a table for each model and cluster.
std::string EmulationMarkdown(const EmulationReport& report);
std::string EmulationJson(const EmulationReport& report);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_EMULATION_EMULATION_REPORT_H_
