// Kills a training run of tiny_sd at random moments. Shows that the trained model is the same.
//
//   bazel run //tests:kill_resume -- --kills=100
#include "tests/testlib/kill_resume.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "gflags/gflags.h"

DEFINE_int32(kills, 100, "number of times that the training run is killed");
DEFINE_uint64(seed, 1, "seed for the moments of the kills");
DEFINE_int32(steps, 300, "training steps per run; runs are repeated until there are enough kills");
DEFINE_int32(checkpoint_every, 5, "steps between checkpoints");
DEFINE_int32(max_life_ms, 3000,
             "maximum time in milliseconds from the start of a process to its kill");
DEFINE_int32(max_saving_ms, 100,
             "maximum time in milliseconds from the beginning of a save to a kill aimed at it");
DEFINE_int32(devices, 2, "number of devices to train on");
DEFINE_string(strategy, "diffusionpipe", "training strategy of the run");
DEFINE_string(dtype, "fp32", "element type of the computation, fp32 or bf16");
DEFINE_string(folder, "/tmp/kill_resume", "folder for the files of the experiment; emptied first");
FLAG_RANGE(kills, 1, 1'000'000);
FLAG_RANGE(steps, 1, 1'000'000);
FLAG_RANGE(checkpoint_every, 0, 1'000'000);
FLAG_RANGE(max_life_ms, 1, 3'600'000);
FLAG_RANGE(max_saving_ms, 0, 3'600'000);
FLAG_RANGE(devices, 1, 1'024);

namespace {

absl::Status Run() {
  dpipe::testlib::KillResumeOptions options;
  options.train_program = "tools/train";
  options.folder = FLAGS_folder;
  options.num_kills = FLAGS_kills;
  options.seed = FLAGS_seed;
  options.max_life_ms = FLAGS_max_life_ms;
  options.max_saving_ms = FLAGS_max_saving_ms;
  options.log = [](const std::string& line) { std::printf("%s\n", line.c_str()), fflush(stdout); };
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
    return absl::InternalError(absl::StrCat("FAILED: ", report.status().message()));
  }
  std::printf(
      "%d kills, %d of them while saving and %d before a step was trained, in %d runs of %d steps, "
      "each equal to the undisturbed one in every loss and every weight; %d steps trained again\n",
      report->kills, report->while_saving, report->before_a_step, report->runs,
      static_cast<int>(report->steps), static_cast<int>(report->steps_again));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const dpipe::Command command = {"kill_resume",
                                  "Kills a training run of tiny_sd at random moments, and shows "
                                  "that the trained model is the same.\n"
                                  "  bazel run //tests:kill_resume -- --kills=100\n"};
  return dpipe::RunCommand(argc, argv, command, Run);
}
