// Kills a training program repeatedly, resumes it each time, and compares its results with those of
// an undisturbed run.
#ifndef DPIPE_TESTS_TESTLIB_KILL_RESUME_H_
#define DPIPE_TESTS_TESTLIB_KILL_RESUME_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::testlib {

struct KillResumeOptions {
  std::string train_program;       // path of //tools:train
  std::vector<std::string> flags;  // of the run, except --out and --resume
  std::string folder;              // for all files of the experiment; is emptied first
  int num_kills = 10;
  // The maximum life of a process, which is random. Every other kill then waits until the program
  // writes a checkpoint, and happens at a random moment during that.
  int max_life_ms = 2500;
  int max_saving_ms = 30;
  uint64_t seed = 1;
  std::function<void(const std::string& line)> log = [](const std::string&) {};
};

struct KillResumeReport {
  int kills = 0;
  int while_saving = 0;     // that left an unfinished checkpoint behind
  int before_a_step = 0;    // of processes that had not trained a step yet
  int runs = 0;             // from the first checkpoint to the end
  int64_t steps = 0;        // per run
  int64_t steps_again = 0;  // trained more than once, because they came after the last checkpoint
};

// The undisturbed run is one process from the first step to the last. The killed runs begin with a
// copy of its first checkpoint, so that they train by the same plan. They follow one another until
// there have been num_kills kills.
//
// Returns an error that describes the difference: a step missing from the log or twice in it,
// different bits of a loss, or different bytes of a file of weights. Also returns an error if a
// process fails by itself.
absl::StatusOr<KillResumeReport> KillAndResume(const KillResumeOptions& options);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_KILL_RESUME_H_
