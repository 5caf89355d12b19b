// Kills, or freezes, one process of a multi-process training run of tiny_sd at a random moment.
// Shows that all others end in time and name it.
//
//   bazel run //tests:kill_ranks -- --kills=200
#include "tests/testlib/kill_ranks.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "gflags/gflags.h"

DEFINE_int32(kills, 200, "number of training runs; in each, one process is killed or frozen");
DEFINE_int32(
    freeze_every, 0,
    "every run at a multiple of this number freezes a process instead of killing it; 0: none");
DEFINE_uint64(seed, 1, "seed for the moments and ranks");
DEFINE_int32(while_training, 0,
             "number of initial runs in which the process is hit during training only");
DEFINE_int32(processes, 3, "number of processes per run");
DEFINE_int32(
    max_life_ms, 6000,
    "maximum time in milliseconds from the start of a run to the kill; every other run resumes "
    "from a checkpoint and soon trains");
DEFINE_int32(death_deadline_ms, 15000,
             "time in milliseconds after a death within which all others must have ended");
DEFINE_double(silence, 3, "seconds of silence after which a process counts as frozen");
DEFINE_string(strategy, "diffusionpipe", "training strategy of the runs");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_string(folder, "/tmp/kill_ranks", "folder for the files of the experiment; emptied first");
FLAG_RANGE(kills, 1, 1'000'000);
FLAG_RANGE(freeze_every, 0, 1'000'000);
FLAG_RANGE(while_training, 0, 1'000'000);
FLAG_RANGE(processes, 2, 64);
FLAG_RANGE(max_life_ms, 1, 3'600'000);
FLAG_RANGE(death_deadline_ms, 1, 3'600'000);
FLAG_RANGE(silence, 0.1, 3'600);

namespace {

absl::Status Run() {
  dpipe::testlib::KillRanksOptions options;
  options.train_program = "tools/train";
  options.folder = FLAGS_folder;
  options.num_processes = FLAGS_processes;
  options.num_kills = FLAGS_kills;
  options.freeze_every = FLAGS_freeze_every;
  options.num_while_training = FLAGS_while_training;
  options.max_life_ms = FLAGS_max_life_ms;
  options.death_deadline_ms = FLAGS_death_deadline_ms;
  options.silence_deadline_ms = static_cast<int>(1000 * FLAGS_silence) + FLAGS_death_deadline_ms;
  options.seed = FLAGS_seed;
  options.log = [](const std::string& line) { std::printf("%s\n", line.c_str()), fflush(stdout); };
  options.flags = {"--strategy=" + FLAGS_strategy,
                   "--data=" + FLAGS_data,
                   "--global_batch=6",
                   "--micro_batches=3",
                   "--frozen_quantum=1",
                   "--steps=100000",
                   "--checkpoint_every=5",
                   "--minutes=0",
                   "--samples=false",
                   "--output.tensorboard=false",
                   absl::StrCat("--job.silence=", FLAGS_silence),
                   "--job.join=8"};
  const auto report = dpipe::testlib::KillRanks(options);
  if (!report.ok()) {
    return absl::InternalError(absl::StrCat("FAILED: ", report.status().message()));
  }
  std::printf(
      "%d kills: the others had ended %.2f s later on average, %.2f s at most\n"
      "%d freezes, detected after %.1f s: %.2f s on average, %.2f s at most\n"
      "%d before all processes had joined, %d during training; every message names the rank, "
      "except in %d runs in which a process joined after all others had ended\n",
      report->kills, report->mean_death_s, report->longest_death_s, report->freezes, FLAGS_silence,
      report->mean_silence_s, report->longest_silence_s, report->before_all_joined,
      report->while_training, report->joined_too_late);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const dpipe::Command command = {"kill_ranks",
                                  "Kills or freezes one process of a multi-process training run of "
                                  "tiny_sd at a random moment,\n"
                                  "and shows that all others end in time and name it.\n"
                                  "  bazel run //tests:kill_ranks -- --kills=200\n"};
  return dpipe::RunCommand(argc, argv, command, Run);
}
