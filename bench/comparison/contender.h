// A strategy being measured, and the results of its turns.
#ifndef DPIPE_BENCH_COMPARISON_CONTENDER_H_
#define DPIPE_BENCH_COMPARISON_CONTENDER_H_

#include <memory>
#include <string>
#include <vector>

#include "bench/comparison/comparison.h"
#include "bench/comparison/typical_turn.h"
#include "core/proto/plan.pb.h"
#include "core/report/timeline/instruction_times.h"
#include "core/runtime/session/local_session.h"

namespace dpipe::bench {

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
