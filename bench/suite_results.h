// What a suite found, case by case, in a folder that an interrupted run goes on from:
//
//   cases/<id>.json        one case: its state and its results, complete or not there
//   cases/<id>.traces.pb   CaseTraces, for its pictures
//   results.json           all of them
#ifndef DPIPE_BENCH_SUITE_RESULTS_H_
#define DPIPE_BENCH_SUITE_RESULTS_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/report/results.h"

namespace dpipe::bench {

enum class CaseState {
  kMeasured,
  kSkipped,  // not possible here: see the reason
  kFailed,   // an error: see the reason. Run again where a suite goes on
};

struct SuiteCaseResult {
  std::string id;
  CaseState state = CaseState::kMeasured;
  std::string reason;
  // The case's definition as textproto: results of another one are not of this case.
  std::string definition;
  // Of a case that was not measured: model, backend and what DescribeRun() says.
  report::BenchResults results;
};

struct SuiteResults {
  std::string suite;
  std::string description;
  // Runs that took turns with each other have the same, which no others have; "" of one alone.
  std::string turns;
  // Runs of the program whose turns these are, one behind another and alike many of each. Of two
  // that took turns, who began alternates from round to round.
  int rounds = 1;
  std::vector<SuiteCaseResult> cases;

  const SuiteCaseResult* Find(const std::string& id) const;  // null if there is none
};

// Adds the turns of a later run of the same program, of the same cases and strategies, to those of
// `results`: throughputs and step times; what does not count in either then counts in neither.
// FailedPrecondition names a case or strategy that only one of them measured.
absl::Status AppendTurns(const SuiteResults& more, SuiteResults* results);

// Where cases differ in code or machine from the first: a sentence a case. Empty: all are of one.
std::vector<std::string> MixedOrigins(const SuiteResults& results);

// JSON, which reads back unchanged. Errors name the key.
std::string SuiteResultsToJson(const SuiteResults& results);
absl::StatusOr<SuiteResults> SuiteResultsFromJson(const std::string& json);
std::string CaseResultToJson(const SuiteCaseResult& result);
absl::StatusOr<SuiteCaseResult> CaseResultFromJson(const std::string& json);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RESULTS_H_
