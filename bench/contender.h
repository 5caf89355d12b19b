// One strategy under measurement, and what its turns say.
#ifndef DPIPE_BENCH_CONTENDER_H_
#define DPIPE_BENCH_CONTENDER_H_

#include <memory>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/typical_turn.h"
#include "core/proto/plan.pb.h"
#include "core/report/instruction_times.h"
#include "core/runtime/local_session.h"

namespace dpipe::bench {

struct Contender {
  std::string name;
  Strategy strategy;
  StrategyOutcome outcome;
  report::StrategyResult result;
  std::vector<double> bubble_ratios;  // one a turn
  report::WorkTimes work_times;       // of all measured steps
  TypicalTurn traces;
  std::unique_ptr<LocalSession> session;

  bool planned() const { return outcome.plan.devices_size() > 0; }
};

// Adds what a turn of the options' warm-up and measured steps has found.
absl::Status AddTurn(const ComparisonOptions& options, RunResult run, Contender* contender);

// Drops the turns after the first `turns`, which others have not taken.
void KeepTurns(int turns, const ComparisonOptions& options, Contender* contender);

// What all turns say together: the median bubble ratio, and the trace of a typical turn with why
// devices are idle in it. Of a contender with turns.
absl::Status SummarizeTurns(Contender* contender);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_CONTENDER_H_
