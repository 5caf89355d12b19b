// Trains a diffusion model by a pipeline strategy and writes it in diffusers layout.
//   bazel run //tools:train -- --minutes=10
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/count.h"
#include "core/base/host/bound_spinning.h"
#include "core/base/host/out_of_memory.h"
#include "core/base/host/stop_request.h"
#include "core/base/text/shell_quote.h"
#include "core/comm/rendezvous/launch/process_exit.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/command_line/command_line.h"
#include "models/folder/model_index.h"
#include "models/trainable/load.h"
#include "tools/train_flags/config_flags.h"
#include "tools/train_flags/train_options.h"
#include "tools/train_flags/train_processes.h"
#include "tools/training/check_run.h"
#include "tools/training/trainer.h"

namespace dpipe::tools {
namespace {

constexpr char kUsage[] =
    "Trains a diffusion model and writes it in diffusers layout.\n"
    "  bazel run //tools:train -- --minutes=10 --strategy=diffusionpipe\n"
    "  bazel run //tools:train -- --config=tools/configs/tiny_sd.textproto --optimizer.lr=1e-3\n"
    "  bazel run //tools:train -- --nproc=2\n"
    "  bazel run //tools:train -- --nproc=8 --backend=cuda     one process per GPU\n"
    "\n"
    "Exit codes: 0 done, 1 refused (why is on standard error), 2 wrong command line, 3 nothing "
    "fits in\n"
    "memory.\n"
    "\n"
    "Every field of tools/train_config.proto is a flag. Short names are in brackets.\n"
    "  --config=FILE                     file with fields as text, which flags overwrite\n"
    "  --print_config                    print the whole configuration, and exit\n"
    "  --check                           do everything before the first step, report what the "
    "run would do,\n"
    "                                    need and write, write nothing (except the built-in "
    "data set, if it\n"
    "                                    is requested and missing), and exit\n"
    "\n";

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

// Says how to resume a run that was stopped. Comes before the summary because it matters more,
// although the last lines stay in sight.
void SayHowToResume(const TrainerOptions& options, const TrainerResult& result) {
  if (result.stopped_by.empty()) return;
  Say(absl::StrCat("Stopped by ", result.stopped_by, " at step ", result.steps, " of ",
                   result.num_steps, "."));
  const bool resumes = options.checkpoints.resume == "auto";  // its flags already resume it
  Say(absl::StrCat("Resume:   ", options.command, resumes ? "" : " --resume=auto"));
}

// Returns the exit code that shells give a program ended by the signal whose name begins
// `stopped_by`; 0 if there is none.
int ExitCodeOf(const std::string& stopped_by) {
  const int signal = SignalNamed(stopped_by);
  return signal == 0 ? 0 : 128 + signal;
}

void PrintSummary(const TrainerOptions& options, const TrainerResult& result) {
  const double seconds = static_cast<double>(result.training_ns) / kNanosPerSecond;
  // Counts only the work of this process, if the run was resumed.
  const int64_t steps = result.steps - result.first_step;
  const int64_t images = result.images * steps / std::max<int64_t>(1, result.steps);
  Say(absl::StrFormat("\nTrained %s, %s, in %s: %.1f img/s, loss %.4f", Count(steps, "step"),
                      Count(images, "image"), FormatDuration(result.training_ns),
                      seconds > 0 ? images / seconds : 0, result.loss));
  if (result.first_step > 0) {
    Say(absl::StrCat("          after ", Count(result.first_step, "step"),
                     " before: ", result.steps, " in total"));
  }
  for (const std::string& line : result.faults) Say(line);
  if (!result.evaluation.empty()) Say(absl::StrCat("Held out: ", result.evaluation));
  Say(absl::StrCat("Model:    ", options.model_out, " (diffusers layout",
                   options.setup.optimizer.ema_decay > 0 ? ", averaged weights)" : ")"));
  if (!result.best.empty()) Say(absl::StrCat("Best:     ", result.best));
  if (!result.last_samples.empty()) Say(absl::StrCat("Samples:  ", result.last_samples));
  Say(absl::StrCat("Log:      ", options.log_path));
}

// Returns commands that use the written folder, by the kind of model and data.
std::vector<std::string> NextCommands(const TrainConfig& config, const TrainerOptions& options,
                                      const TrainerResult& result) {
  const auto index = models::ReadModelIndex(options.model_out);
  const auto kind = models::FindModelKind(options.model_out, /*kind=*/"");
  if (!index.ok() || !kind.ok()) return {};
  std::vector<std::string> model;
  const bool has_control = index->components.count("controlnet") > 0;
  // Without --model, the tools take this run's.
  if (!config.output().path().empty() || has_control) model.push_back("--model=" + options.out);
  const auto command = [](const std::string& tool, const std::vector<std::string>& flags) {
    return absl::StrCat("bazel run //tools:", tool, " -- ", ShellCommand(flags));
  };
  const bool is_judged = config.data().path().empty();  // the judge knows the built-in scenes alone
  std::vector<std::string> commands;
  if (has_control && is_judged) return {command("score_control", model)};
  // The folder says which size its model was made for, not which it was trained at.
  if (config.model().image_size() > 0) {
    model.push_back(absl::StrCat("--image_size=", config.model().image_size()));
  }
  if (!result.prompts.empty()) {
    std::vector<std::string> flags = model;
    flags.push_back("--prompt=" + absl::StrJoin(result.prompts, "|"));
    if (has_control) flags.push_back("--control=IMAGE");
    commands.push_back(command("sample", flags));
  }
  if (is_judged && (*kind)->is_latent) {
    model.push_back("--untrained");
    commands.push_back(command("score", model));
  }
  return commands;
}

void PrintNextCommands(const TrainConfig& config, const TrainerOptions& options,
                       const TrainerResult& result) {
  const std::vector<std::string> commands = NextCommands(config, options, result);
  if (!commands.empty()) Say("Next:     " + absl::StrJoin(commands, "\n          "));
  if (!options.tensorboard_folder.empty()) {
    Say(absl::StrCat("          tensorboard --logdir ",
                     ShellCommand({options.tensorboard_folder})));
  }
}

// Trains as one process of a run; only process 0 prints messages. Returns the exit code.
absl::StatusOr<int> TrainAs(const TrainCommand& command, const std::vector<std::string>& arguments,
                            ProcessGroup* processes) {
  const TrainConfig& config = command.config;
  const bool leads = processes == nullptr || processes->is_leader();
  const auto say = [leads](const std::string& line) {
    if (leads) Say(line);
  };
  TrainerOptions options;
  // The first process on each host generates the built-in data set.
  const auto find = [&]() -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(options, OptionsOf(config, say));
    return absl::OkStatus();
  };
  DPIPE_RETURN_IF_ERROR(processes == nullptr ? find()
                                             : processes->RunFirstOnHost("the data set", find));
  options.setup.processes = processes;
  if (command.check) OnlyCheck(&options);
  if (!leads) {
    DPIPE_RETURN_IF_ERROR(TrainAsFollower(options));
    return 0;
  }
  options.command = absl::StrCat("bazel run //tools:train -- ", ShellCommand(arguments));
  const std::vector<std::string> changed = ConfigDifferences(config);
  Say(absl::StrCat("Config:   ", changed.empty() ? "defaults" : absl::StrJoin(changed, " ")));
  if (command.check) {
    DPIPE_RETURN_IF_ERROR(CheckRun(options, Say));
    return 0;
  }
  const absl::StatusOr<TrainerResult> trained = Train(options, Say);
  if (absl::IsCancelled(trained.status())) {
    ExitCode("train", trained.status());  // prints the reason
    return ExitCodeOf(std::string(trained.status().message()));
  }
  DPIPE_ASSIGN_OR_RETURN(const TrainerResult result, trained);
  SayHowToResume(options, result);
  PrintSummary(options, result);
  PrintNextCommands(config, options, result);
  return ExitCodeOf(result.stopped_by);
}

// Trains alone or with others; an error in one process ends all. Returns the exit code.
absl::StatusOr<int> TrainTogether(const TrainCommand& command,
                                  const std::vector<std::string>& arguments) {
  DPIPE_ASSIGN_OR_RETURN(const auto processes, JoinProcesses(command.config));
  if (processes == nullptr) return TrainAs(command, arguments, nullptr);
  const ExitWithJob end(&processes->store());
  absl::StatusOr<int> exit_code = TrainAs(command, arguments, processes.get());
  if (!exit_code.ok()) processes->store().Fail(exit_code.status());
  return exit_code;
}

// Returns the exit code.
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
  return TrainTogether(command, arguments);
}

}  // namespace
}  // namespace dpipe::tools

int main(int argc, char** argv) {
  dpipe::BoundSpinning(argv);
  dpipe::KeepStandardDescriptors();
  dpipe::EndWhenOutOfMemory("train");
  // If the reader of standard output exits (`| head`), training and its logs continue.
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const absl::StatusOr<int> exit_code = dpipe::tools::Main(arguments);
  return dpipe::FinishStandardOutput(
      "train", exit_code.ok() ? *exit_code : dpipe::ExitCode("train", exit_code.status()));
}
