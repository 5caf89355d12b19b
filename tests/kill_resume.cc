// Kills a training run of tiny_sd at random instants, and shows that what it learns is the same.
//   bazel run //tests:kill_resume -- --kills=100
#include "tests/testlib/kill_resume.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "gflags/gflags.h"

DEFINE_int32(kills, 100, "how many");
DEFINE_uint64(seed, 1, "of the instants");
DEFINE_int32(steps, 300, "of a run; there are as many runs as the kills take");
DEFINE_int32(checkpoint_every, 5, "steps from one checkpoint to the next");
DEFINE_int32(max_life_ms, 3000, "of a process");
DEFINE_int32(max_saving_ms, 100, "from the beginning of a save to a kill that is aimed at it");
DEFINE_int32(devices, 2, "to train on");
DEFINE_string(strategy, "diffusionpipe", "of the run");
DEFINE_string(dtype, "fp32", "fp32 or bf16");
DEFINE_string(folder, "/tmp/kill_resume", "for the files of the experiment; is emptied first");

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  dpipe::testlib::KillResumeOptions options;
  options.train_program = "tools/train";
  options.folder = FLAGS_folder;
  options.num_kills = FLAGS_kills;
  options.seed = FLAGS_seed;
  options.max_life_ms = FLAGS_max_life_ms;
  options.max_saving_ms = FLAGS_max_saving_ms;
  options.say = [](const std::string& line) { std::printf("%s\n", line.c_str()), fflush(stdout); };
  options.flags = {"--strategy=" + FLAGS_strategy,
                   "--dtype=" + FLAGS_dtype,
                   absl::StrCat("--devices=", FLAGS_devices),
                   absl::StrCat("--steps=", FLAGS_steps),
                   absl::StrCat("--checkpoint_every=", FLAGS_checkpoint_every),
                   "--global_batch=4",
                   "--micro_batches=2",
                   "--frozen_quantum=2",
                   "--warmup=10",
                   "--minutes=0",
                   "--save_every=50",
                   "--samples=false",
                   "--output.tensorboard=false"};
  const auto report = dpipe::testlib::KillAndResume(options);
  if (!report.ok()) {
    std::printf("FAILED: %s\n", std::string(report.status().message()).c_str());
    return 1;
  }
  std::printf(
      "%d kills, %d of them while saving and %d before a step was trained, in %d runs of %d steps, "
      "each equal to the undisturbed one in every loss and every weight; %d steps trained again\n",
      report->kills, report->while_saving, report->before_a_step, report->runs,
      static_cast<int>(report->steps), static_cast<int>(report->steps_again));
  return 0;
}
