// Trains a diffusion model by a pipeline strategy and leaves it in diffusers layout.
//   bazel run //tools:train -- --minutes=10
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/comm/rendezvous/end_with_job.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/command_line/command_line.h"
#include "models/config/model_index.h"
#include "tools/config_flags.h"
#include "tools/train_options.h"
#include "tools/train_processes.h"
#include "tools/trainer.h"

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Trains a diffusion model and writes it in diffusers layout.\n"
    "  bazel run //tools:train -- --minutes=10 --strategy=diffusionpipe\n"
    "  bazel run //tools:train -- --config=tools/configs/tiny_sd.textproto --optimizer.lr=1e-3\n"
    "  bazel run //tools:train -- --nproc=2\n"
    "  bazel run //tools:train -- --nproc=8 --backend=cuda     a process for each of 8 GPUs\n"
    "\n"
    "Exit codes: 0 done, 1 refused (why is on standard error), 2 wrong command line, 3 nothing "
    "fits in\n"
    "memory.\n"
    "\n"
    "Every field of tools/train_config.proto is a flag. Short names are in brackets.\n"
    "  --config=FILE                     file with fields as text, which flags overwrite\n"
    "  --print_config                    print the whole configuration, and exit\n"
    "\n";

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

void SayWhatHappened(const TrainerOptions& options, const TrainerResult& result) {
  const double seconds = static_cast<double>(result.training_ns) / kNanosPerSecond;
  if (!result.stopped_by.empty()) Say(absl::StrCat("Stopped by ", result.stopped_by, "."));
  // Of a run that went on, what this process did.
  const int64_t steps = result.steps - result.first_step;
  const int64_t images = result.images * steps / std::max<int64_t>(1, result.steps);
  Say(absl::StrFormat("\nTrained %d steps, %d images, in %s: %.1f img/s, loss %.4f", steps, images,
                      FormatDuration(result.training_ns), seconds > 0 ? images / seconds : 0,
                      result.loss));
  if (result.first_step > 0) {
    Say(absl::StrCat("          after ", result.first_step, " steps before: ", result.steps,
                     " in all"));
  }
  for (const std::string& line : result.faults) Say(line);
  if (!result.evaluation.empty()) Say(absl::StrCat("Held out: ", result.evaluation));
  Say(absl::StrCat("Model:    ", options.out, " (diffusers layout",
                   options.setup.optimizer.ema_decay > 0 ? ", averaged weights)" : ")"));
  if (!result.last_samples.empty()) Say(absl::StrCat("Samples:  ", result.last_samples));
  Say(absl::StrCat("Log:      ", options.log_path));
}

// What the folder that was written can be used for, by its kind.
std::vector<std::string> NextCommands(const TrainConfig& config, const TrainerOptions& options) {
  const auto index = models::ReadModelIndex(options.out);
  if (!index.ok()) return {};
  if (index->components.count("controlnet") > 0) {
    return {absl::StrCat("bazel run //tools:score_control -- --model=", options.out)};
  }
  if (index->class_name != "StableDiffusionPipeline") return {};
  const std::string model =
      config.output().path().empty() ? "" : absl::StrCat(" --model=", options.out);
  return {absl::StrCat("bazel run //tools:sample --", model,
                       " --prompt=\"a large red circle left of a small blue square\""),
          absl::StrCat("bazel run //tools:score --", model, " --untrained")};
}

void SayWhatIsNext(const TrainConfig& config, const TrainerOptions& options) {
  const std::vector<std::string> commands = NextCommands(config, options);
  if (!commands.empty()) Say("Next:     " + absl::StrJoin(commands, "\n          "));
  if (!options.tensorboard_folder.empty()) {
    Say(absl::StrCat("          tensorboard --logdir ", options.tensorboard_folder));
  }
}

// Of a run of several processes, this one's part; the first one says what happens.
absl::Status TrainAs(const TrainConfig& config, const std::vector<std::string>& arguments,
                     ProcessGroup* processes) {
  const bool leads = processes == nullptr || processes->is_leader();
  const auto say = [leads](const std::string& line) {
    if (leads) Say(line);
  };
  TrainerOptions options;
  // Whoever comes first makes the built-in data set.
  const auto find = [&]() -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(options, OptionsOf(config, say));
    return absl::OkStatus();
  };
  DPIPE_RETURN_IF_ERROR(processes == nullptr ? find()
                                             : processes->FirstOnHostFirst("the data set", find));
  options.setup.processes = processes;
  if (!leads) return FollowTraining(options);
  options.command = absl::StrCat("bazel run //tools:train -- ", absl::StrJoin(arguments, " "));
  const std::vector<std::string> changed = ConfigDifferences(config);
  Say(absl::StrCat("Config:   ", changed.empty() ? "defaults" : absl::StrJoin(changed, " "),
                   "\n          all of it in ", options.config_path));
  DPIPE_ASSIGN_OR_RETURN(const TrainerResult result, Train(options, Say));
  SayWhatHappened(options, result);
  SayWhatIsNext(config, options);
  return absl::OkStatus();
}

// An error of one process is all processes' end.
absl::Status TrainTogether(const TrainConfig& config, const std::vector<std::string>& arguments) {
  DPIPE_ASSIGN_OR_RETURN(const auto processes, JoinProcesses(config));
  if (processes == nullptr) return TrainAs(config, arguments, nullptr);
  const EndWithJob end(&processes->store());
  const absl::Status status = TrainAs(config, arguments, processes.get());
  if (!status.ok()) processes->store().Fail(status);
  return status;
}

// The exit code.
absl::StatusOr<int> Main(const std::vector<std::string>& arguments) {
  DPIPE_ASSIGN_OR_RETURN(const TrainCommand command, ParseTrainCommand(arguments));
  if (command.help) {
    Say(absl::StrCat(kUsage, ConfigHelp(command.config)));
    return 0;
  }
  DPIPE_RETURN_IF_ERROR(CheckTrainConfig(command.config));
  if (command.print_config) {
    Say(WholeConfigText(command.config));
    return 0;
  }
  DPIPE_ASSIGN_OR_RETURN(const std::optional<int> ended, RunProcesses(command.config, arguments));
  if (ended.has_value()) return *ended;
  DPIPE_RETURN_IF_ERROR(TrainTogether(command.config, arguments));
  return 0;
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const absl::StatusOr<int> exit_code = dpipe::tools::Main(arguments);
  return exit_code.ok() ? *exit_code : dpipe::ExitCode("train", exit_code.status());
}
