// Which instructions a simulated step has otherwise than executed ones.
//
// A device's step is what its instructions take and what it waits. Where a predicted step is off,
// the work whose times differ most says why; waiting differs because some device's work does.
#ifndef DPIPE_CORE_REPORT_INSTRUCTION_TIMES_H_
#define DPIPE_CORE_REPORT_INSTRUCTION_TIMES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/proto/trace.pb.h"
#include "core/report/results.h"
#include "core/report/trace_index.h"

namespace dpipe::report {

// Times of a plan's work, step by step, of any number of its traces.
class WorkTimes {
 public:
  // Adds the trace's steps `steps`, complete ones. InvalidArgument as TraceIndex::Create.
  absl::Status Add(const Trace& trace, StepWindow steps);

 private:
  friend std::vector<InstructionTimes> CompareTimes(const WorkTimes& measured,
                                                    const WorkTimes& predicted);
  struct Samples {
    int per_step = 0;        // instructions
    std::vector<double> ms;  // one a step
  };
  std::map<std::pair<int, std::string>, Samples> by_device_and_work_;
};

// The medians over steps of all work of both, by how much they differ, the most first; after that,
// waiting, by device.
std::vector<InstructionTimes> CompareTimes(const WorkTimes& measured, const WorkTimes& predicted);

// "most off: backward, stage 1 on device 1 (8 a step): 130.2 ms a step, predicted 121.9 (+6.8 %)",
// without the percentage where no time was predicted; empty where there is nothing to compare.
std::string MostOffText(const std::vector<InstructionTimes>& times);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_INSTRUCTION_TIMES_H_
