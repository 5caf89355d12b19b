// Compares two runs of one plan: the simulator's and the emulated runtime's.
#ifndef DPIPE_CORE_EMULATION_COMPARE_TRACES_H_
#define DPIPE_CORE_EMULATION_COMPARE_TRACES_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/trace_stats.h"

namespace dpipe {

// When a computation of a steady step ends in both runs, relative to the step's start.
struct InstructionDifference {
  int rank = -1;  // -1: none
  int instruction = -1;
  Nanos expected_ns = 0;
  Nanos actual_ns = 0;

  Nanos delay_ns() const { return actual_ns - expected_ns; }
};

struct TraceDifference {
  Nanos expected_step_ns = 0, actual_step_ns = 0;
  // The computation whose end differs most.
  InstructionDifference worst;
  // Where the runs begin to differ: among the computations whose ends differ by more than a tenth
  // of the worst difference, the one with the earliest expected end. Later ones may only be late
  // because of it.
  InstructionDifference first;

  double relative() const {
    return static_cast<double>(actual_step_ns) / static_cast<double>(expected_step_ns) - 1;
  }
};

// Compares the last steady step of both runs. `skip_last`: the last step is not steady
// (WorksAcrossSteps). Returns InvalidArgument, naming one, if the runs do not have the same
// computations in that step.
absl::StatusOr<TraceDifference> CompareTraces(const Plan& plan,
                                              const std::vector<StreamEvent>& expected,
                                              const std::vector<StreamEvent>& actual,
                                              bool skip_last);

// Returns a text such as "rank 3, FORWARD of micro-batch 2 on stage 3: ends 1.20 ms later (13.2 ms,
// expected 12.0 ms from the step's start)".
std::string DifferenceText(const Plan& plan, const InstructionDifference& difference);

// Converts a trace's events to a simulation's format.
std::vector<StreamEvent> EventsOf(const Trace& trace);

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_COMPARE_TRACES_H_
