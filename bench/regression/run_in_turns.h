// Starts two suite programs and lets them take turns.
#ifndef DPIPE_BENCH_REGRESSION_RUN_IN_TURNS_H_
#define DPIPE_BENCH_REGRESSION_RUN_IN_TURNS_H_

#include <array>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::bench {

struct SuiteProgram {
  std::string name;                    // "old": used in file names and messages
  std::string path;                    // an executable //bench:suite
  std::vector<std::string> arguments;  // with its own --out; --turns is added
  std::string log_path;                // file for its output
};

// Runs both to the end, in turns 0 1, 1 0, 0 1, ..., so that neither is always second and drift of
// the machine's speed cancels. Starts the first program first. `turns_name` is stored in both
// results. Returns an error if a program cannot be started, or ends with an exit status other than
// 0 and kBadResult, with the last lines of its log; the other program is then ended.
absl::Status RunInTurns(const std::array<SuiteProgram, 2>& programs, const std::string& turns_name);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_REGRESSION_RUN_IN_TURNS_H_
