// Runs a suite, a case at a time, and goes on from what an interrupted run left.
#ifndef DPIPE_BENCH_SUITE_RUN_H_
#define DPIPE_BENCH_SUITE_RUN_H_

#include <functional>
#include <string>
#include <vector>

#include "bench/suite_backends.h"
#include "bench/suite_cases.h"
#include "bench/suite_results.h"
#include "core/base/status.h"

namespace dpipe::bench {

struct SuiteRunOptions {
  std::string folder;        // of suite_results.h; made if missing
  std::string command_line;  // for the results
  bool fresh = false;        // measure everything anew
  // Keep finished cases of other code or another machine, which are else measured anew. Reports
  // then say which (MixedOrigins).
  bool mix = false;
  std::string turns;  // of the results
  // Called with what there is after each case. Empty: nothing.
  std::function<void(const SuiteResults&)> after_case;
  // Runs the case of that id elsewhere, by RunCaseAlone in the same folder: how cases are run that
  // may end the program, so that the others are measured all the same. Empty: all are run here.
  std::function<absl::Status(const std::string& id)> run_apart;
  CaseOptions cases;
};

// Cases that are finished in the folder, by the same definition and, without `mix`, by the same
// code on the same machine, are not run again; those that failed are. A case that fails does not
// end the suite. `say` of the options is told of every case. Errors: files, and before_turn's;
// Cancelled, saying after how many cases, where stop_requested has ended it. The case under way is
// then left out: those before it are in the folder, and after_case knows them.
absl::StatusOr<SuiteResults> RunSuite(const Suite& suite, const std::vector<SuiteCase>& cases,
                                      const SuiteRunOptions& options);

// Runs one case and leaves its files in the folder, whatever is there. Errors: as above.
absl::Status RunCaseAlone(const Suite& suite, const SuiteCase& one, const SuiteRunOptions& options);

// The traces of a finished case; none where there is no file.
absl::StatusOr<CaseTraces> ReadCaseTraces(const std::string& folder, const std::string& id);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_RUN_H_
