// Results of a suite in a folder from which an interrupted run can continue:
//
//   cases/<id>.json        state and results of one case; written atomically
//   cases/<id>.traces.pb   CaseTraces, for its pictures
//   results.json           all cases (core/proto/results.proto)
#ifndef DPIPE_BENCH_SUITE_RUNNER_SUITE_RESULTS_H_
#define DPIPE_BENCH_SUITE_RUNNER_SUITE_RESULTS_H_

#include "core/base/status.h"
#include "core/proto/results.pb.h"

namespace dpipe::bench {

// Appends the turns of a later run of the same program, cases and strategies: throughputs and step
// times. If a strategy does not count in either, it does not count in the result. Returns
// FailedPrecondition with a case or strategy that only one of them measured.
absl::Status AppendTurns(const Results& more, Results* results);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUNNER_SUITE_RESULTS_H_
