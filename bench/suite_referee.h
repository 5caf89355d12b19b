// Starts two suite programs and lets them take turns.
#ifndef DPIPE_BENCH_SUITE_REFEREE_H_
#define DPIPE_BENCH_SUITE_REFEREE_H_

#include <array>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::bench {

struct SuitePlayer {
  std::string name;                    // "old": of its files, and in messages
  std::string program;                 // an executable //bench:suite
  std::vector<std::string> arguments;  // with its own --out; --turns is added
  std::string log_path;                // what it says goes here
};

// Both run to their end, in turns 0 1, 1 0, 0 1, ...: neither is always the second, and a drift of
// the machine cancels. The first player is started first. `turns_name` goes into both results.
// Errors: a program that cannot be started, or that ends with an exit status other than 0 and 2,
// with the last lines of its log; the other one is ended then.
absl::Status RunInTurns(const std::array<SuitePlayer, 2>& players, const std::string& turns_name);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_SUITE_REFEREE_H_
