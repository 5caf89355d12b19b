// Results of a suite by case, in a folder from which an interrupted run can continue:
//
//   cases/<id>.json        state and results of one case; written atomically
//   cases/<id>.traces.pb   CaseTraces, for its pictures
//   results.json           all cases
#ifndef DPIPE_BENCH_SUITE_RUNNER_SUITE_RESULTS_H_
#define DPIPE_BENCH_SUITE_RUNNER_SUITE_RESULTS_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/report/results.h"

namespace dpipe::bench {

enum class CaseState {
  kMeasured,
  kSkipped,  // not possible here: see the reason
  kFailed,   // an error: see the reason. Run again when the suite continues
};

struct SuiteCaseResult {
  std::string id;
  CaseState state = CaseState::kMeasured;
  std::string reason;
  // The case's definition as textproto. Results of a case with another definition are not used.
  std::string definition;
  // If the case was not measured: only the model, the backend and DescribeRun()'s fields.
  report::BenchResults results;
};

struct SuiteResults {
  std::string suite;
  std::string description;
  // Identifies runs that took turns with each other; "" if the run was alone.
  std::string turns;
  // Number of runs of the program whose turns these are. They are concatenated, with equally many
  // turns each. If two programs took turns, they alternate in starting first, from round to round.
  int rounds = 1;
  std::vector<SuiteCaseResult> cases;

  const SuiteCaseResult* Find(const std::string& id) const;  // null if there is none
};

// Appends the turns of a later run of the same program, cases and strategies: throughputs and step
// times. If a strategy does not count in either, it does not count in the result. Returns
// FailedPrecondition with a case or strategy that only one of them measured.
absl::Status AppendTurns(const SuiteResults& more, SuiteResults* results);

// Returns a sentence per case that differs in code or machine from the first. Empty if none does.
std::vector<std::string> MixedOrigins(const SuiteResults& results);

// Convert to JSON and back without loss. Errors name the key.
std::string SuiteResultsToJson(const SuiteResults& results);
absl::StatusOr<SuiteResults> SuiteResultsFromJson(const std::string& json);
std::string CaseResultToJson(const SuiteCaseResult& result);
absl::StatusOr<SuiteCaseResult> CaseResultFromJson(const std::string& json);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUNNER_SUITE_RESULTS_H_
