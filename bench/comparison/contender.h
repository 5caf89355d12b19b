// A strategy being measured, and the results of its turns.
#ifndef DPIPE_BENCH_COMPARISON_CONTENDER_H_
#define DPIPE_BENCH_COMPARISON_CONTENDER_H_

#include <memory>
#include <string>
#include <vector>

#include "bench/comparison/comparison.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/report/timeline/instruction_times.h"
#include "core/runtime/session/local_session.h"

namespace dpipe::bench {

// Selects the trace of a typical turn, so that a drawn timeline agrees with the table's medians.
class TypicalTurn {
 public:
  // Adds a turn. Keeps only a few traces, those with steps nearest to the median so far, so that
  // memory does not grow with the number of turns.
  void Add(double step_ms, Trace trace);

  // Returns the kept trace whose steps are nearest to this time, the earliest if several are. Empty
  // if there were no turns.
  Trace Take(double step_ms);

 private:
  struct Turn {
    double step_ms = 0;
    Trace trace;
  };

  std::vector<double> all_step_ms_;
  std::vector<Turn> kept_;
};

struct Contender {
  std::string name;
  Strategy strategy;
  StrategyOutcome outcome;
  StrategyResult result;
  std::vector<double> bubble_ratios;  // one per turn
  report::WorkTimes work_times;       // of all measured steps
  TypicalTurn traces;
  std::unique_ptr<LocalSession> session;

  bool planned() const { return outcome.plan.devices_size() > 0; }
};

// Adds the results of a turn of warm-up and measured steps.
absl::Status AddTurn(const ComparisonOptions& options, RunResult run, Contender* contender);

// Drops the turns after the first `turns`, which other strategies have not taken.
void KeepTurns(int turns, const ComparisonOptions& options, Contender* contender);

// Sets the median bubble ratio over all turns, and the trace of a typical turn with its idle time
// by reason. The contender must have turns.
absl::Status SummarizeTurns(Contender* contender);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_CONTENDER_H_
