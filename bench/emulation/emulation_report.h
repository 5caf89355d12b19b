// Tables and JSON of emulated cases.
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
  report::MachineInfo machine;
  EmulateOptions options;
  std::vector<EmulationResult> results;
};

// How far the emulated step times of some results are from the simulated ones.
struct EmulationSummary {
  int num_run = 0;
  int num_invalid = 0;  // wrong losses
  double median = 0;    // of the differences' absolute values
  double worst = 0;
  const EmulationResult* worst_result = nullptr;
};
EmulationSummary Summarize(const std::vector<EmulationResult>& results);

// A summary, then a table for each model and cluster.
std::string EmulationMarkdown(const EmulationReport& report);
std::string EmulationJson(const EmulationReport& report);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_EMULATION_EMULATION_REPORT_H_
