// Runs a suite case by case, and continues an interrupted run.
#ifndef DPIPE_BENCH_SUITE_RUNNER_SUITE_RUN_H_
#define DPIPE_BENCH_SUITE_RUNNER_SUITE_RUN_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/suite_runner/suite_backends.h"
#include "bench/suite_runner/suite_cases.h"
#include "core/base/status.h"
#include "core/proto/results.pb.h"

namespace dpipe::bench {

struct SuiteRunOptions {
  std::string folder;        // as in suite_results.h; created if missing
  std::string command_line;  // for the results
  bool fresh = false;        // measure all cases again
  // Keep finished cases of other code or another machine, which are otherwise measured again.
  // Reports then name them (MixedOrigins).
  bool mix = false;
  std::string turns;  // for the results
  // Called after each case with the results so far. May be empty.
  std::function<void(const Results&)> after_case;
  // Runs the case with that id in another process, by RunCaseAlone with the same folder. Used for
  // cases that may end the program, so that the others are still measured. Empty: all cases run
  // here.
  std::function<absl::Status(const std::string& id)> run_in_process;
  CaseOptions cases;
};

// Runs the cases, and reports each to `say` of the options. Does not run cases again that are
// finished in the folder with the same definition and, unless `mix`, the same code and machine;
// failed cases run again. A failing case does not end the suite. Returns errors of files and of
// before_turn. Returns Cancelled, with the number of finished cases, if stop_requested has ended
// the suite. The current case is then lost; earlier ones are in the folder and were passed to
// after_case.
absl::StatusOr<Results> RunSuite(const Suite& suite, const std::vector<SuiteCase>& cases,
                                 const SuiteRunOptions& options);

// Runs one case and writes its files to the folder, replacing existing ones. Returns the same
// errors.
absl::Status RunCaseAlone(const Suite& suite, const SuiteCase& one, const SuiteRunOptions& options);

// Returns the traces of a finished case; none if there is no file.
absl::StatusOr<CaseTraces> ReadCaseTraces(const std::string& folder, const std::string& id);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUNNER_SUITE_RUN_H_
