// Compares the instruction times of simulated and executed steps.
//
// A device's step consists of its instructions and its waiting. If a predicted step is off, the
// work with the largest difference explains it; waiting differs only because some device's work
// does.
#ifndef DPIPE_CORE_REPORT_TIMELINE_INSTRUCTION_TIMES_H_
#define DPIPE_CORE_REPORT_TIMELINE_INSTRUCTION_TIMES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/proto/results.pb.h"
#include "core/proto/trace.pb.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {

// Times of a plan's work per step, over any number of its traces.
class WorkTimes {
 public:
  // Adds the complete steps `steps` of the trace. Returns InvalidArgument as TraceIndex::Create
  // does.
  absl::Status Add(const Trace& trace, StepWindow steps);

 private:
  friend std::vector<InstructionTimes> CompareTimes(const WorkTimes& measured,
                                                    const WorkTimes& predicted);
  struct Samples {
    int per_step = 0;        // instructions
    std::vector<double> ms;  // one per step
  };
  std::map<std::pair<int, std::string>, Samples> by_device_and_work_;
};

// Returns measured minus predicted time.
inline double DifferenceMs(const InstructionTimes& one) {
  return one.measured_ms() - one.predicted_ms();
}

// Compares the medians over steps of all work that both have, sorted by difference, largest first.
// Waiting follows, by device.
std::vector<InstructionTimes> CompareTimes(const WorkTimes& measured, const WorkTimes& predicted);

// Returns "largest deviation: backward, stage 1 on device 1 (8 per step): 130.2 ms per step,
// predicted 121.9 (+6.8 %)". Without the percentage if no time was predicted; empty if there is
// nothing to compare.
std::string LargestDeviationText(const std::vector<InstructionTimes>& times);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_INSTRUCTION_TIMES_H_
