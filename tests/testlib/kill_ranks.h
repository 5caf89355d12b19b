// Kills one process at a time in training runs of several, and observes how the others end.
#ifndef DPIPE_TESTS_TESTLIB_KILL_RANKS_H_
#define DPIPE_TESTS_TESTLIB_KILL_RANKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::testlib {

struct KillRanksOptions {
  std::string train_program;       // path of //tools:train
  std::vector<std::string> flags;  // of the run, except --out and the processes' numbers
  std::string folder;              // for all files of the experiment; is emptied first
  int num_processes = 3;
  int num_kills = 10;
  int freeze_every = 0;  // every n-th time, the process is stopped (SIGSTOP) instead of killed
  // Every other run resumes from a checkpoint, so that it has a plan and starts training at once.
  int max_life_ms = 3000;  // maximum life of a run, which is random
  // The number of initial runs that resume from the checkpoint, save no other, and live for that
  // time after the end of a step. So they are hit while they train.
  int num_while_training = 0;
  int step_deadline_ms = 120000;  // by which such a run must have trained a step
  // The deadlines by which all others must have ended: after a death, and after a freeze (detected
  // by silence). They are those of the flags --job.silence and --job.join, plus a margin.
  int death_deadline_ms = 15000, silence_deadline_ms = 30000;
  uint64_t seed = 1;
  std::function<void(const std::string& line)> log = [](const std::string&) {};
};

struct KillRanksReport {
  int kills = 0, freezes = 0;
  int before_all_joined = 0;  // the others waited for a process that never joined
  int joined_too_late = 0;    // a process found no store, because all others had ended before
  int while_training = 0;     // at least one of the others named its current instruction
  double mean_death_s = 0, longest_death_s = 0;      // until the last of the others had ended
  double mean_silence_s = 0, longest_silence_s = 0;  // the same for freezes
};

// Returns an error if a process did not end in time, or ended with another exit code than 1, or did
// not name the lost rank. (A process that never met the others need not name it.) The error
// contains that process's output.
absl::StatusOr<KillRanksReport> KillRanks(const KillRanksOptions& options);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_KILL_RANKS_H_
