// Kills a training program again and again, lets it go on each time, and compares what comes out
// with a run that was never disturbed.
#ifndef DPIPE_TESTS_TESTLIB_KILL_RESUME_H_
#define DPIPE_TESTS_TESTLIB_KILL_RESUME_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::testlib {

struct KillResumeOptions {
  std::string train_program;       // //tools:train's
  std::vector<std::string> flags;  // of the run, but for --out and --resume
  std::string folder;              // for all files of the experiment; is emptied first
  int num_kills = 10;
  // A life ends at a random time up to this one. Every other kill then waits until the program
  // writes a checkpoint, and comes at a random moment of that.
  int max_life_ms = 2500;
  int max_saving_ms = 30;
  uint64_t seed = 1;
  std::function<void(const std::string& line)> say = [](const std::string&) {};
};

struct KillResumeReport {
  int kills = 0;
  int while_saving = 0;     // that left an unfinished checkpoint behind
  int before_a_step = 0;    // whose process had trained no step yet
  int runs = 0;             // from the first checkpoint to the end
  int64_t steps = 0;        // of each
  int64_t steps_again = 0;  // trained more than once, because they came after the last checkpoint
};

// The undisturbed run is one process from the first step to the last. The killed runs begin with a
// copy of its first checkpoint, so that they train by the same plan; there are as many of them, one
// after another, as num_kills takes. An error says how they differ: a step missing from the log, or
// twice in it; a loss with other bits; a file of weights with other bytes; a process that ended in
// another way than by its kill.
absl::StatusOr<KillResumeReport> KillAndResume(const KillResumeOptions& options);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_KILL_RESUME_H_
