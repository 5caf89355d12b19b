// Takes one process at a time from training runs of several, and sees how the others end.
#ifndef DPIPE_TESTS_TESTLIB_KILL_RANKS_H_
#define DPIPE_TESTS_TESTLIB_KILL_RANKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::testlib {

struct KillRanksOptions {
  std::string train_program;       // //tools:train's
  std::vector<std::string> flags;  // of the run, but for --out and who each process is
  std::string folder;              // for all files of the experiment; is emptied first
  int num_processes = 3;
  int num_kills = 10;
  int freeze_every = 0;  // every so many-th time the process is stopped (SIGSTOP), not killed
  // Every other run goes on from a checkpoint, so that it has a plan and comes to training at once.
  int max_life_ms = 3000;  // a run lives for a random time up to this one
  // So many runs, the first, all go on from the checkpoint and save no other, and live for that
  // time from the end of a step on: they are hit while they train.
  int num_while_training = 0;
  int step_deadline_ms = 120000;  // by which such a run must have trained a step
  // By which all others must have ended: after a death, and after a process froze, which is known
  // by its silence. Those are as the flags --job.silence and --job.join have it, and some time
  // more.
  int death_deadline_ms = 15000, silence_deadline_ms = 30000;
  uint64_t seed = 1;
  std::function<void(const std::string& line)> say = [](const std::string&) {};
};

struct KillRanksReport {
  int kills = 0, freezes = 0;
  int before_all_had_come = 0;  // the others waited for a process that never came
  int came_too_late = 0;        // a process found no store, because all others had ended before
  int while_training = 0;       // at least one of the others named the instruction it was at
  double mean_death_s = 0, longest_death_s = 0;      // until the last of the others had ended
  double mean_silence_s = 0, longest_silence_s = 0;  // of frozen ones, likewise
};

// An error says which process did not end in time, ended in another way than by exit code 1, or did
// not name the rank that was gone, though it had met the others; with what it said.
absl::StatusOr<KillRanksReport> KillRanks(const KillRanksOptions& options);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_KILL_RANKS_H_
