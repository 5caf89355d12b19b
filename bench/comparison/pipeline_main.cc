#include "bench/comparison/pipeline_main.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "bench/comparison/on_clusters.h"
#include "bench/comparison/output.h"
#include "bench/comparison/pipeline_comparison.h"
#include "core/base/files/run_paths.h"
#include "core/base/host/stop_request.h"
#include "core/base/text/shell_quote.h"
#include "core/comm/rendezvous/job_address.h"
#include "core/comm/rendezvous/launch/local_launcher.h"
#include "core/comm/rendezvous/launch/process_exit.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "data/outputs_apart.h"
#include "gflags/gflags.h"
#include "models/folder/find_folders.h"
#include "models/trainable/load.h"

DEFINE_string(model, "tiny_sd", "name of a built-in model, or a folder in diffusers layout");
DEFINE_string(backend, "auto", "cpu, cuda, or auto: cuda if there are enough GPUs, else cpu");
DEFINE_int32(devices, 0, "number of devices to train on; 0: one per core, or every GPU");
DEFINE_int32(nproc, 1,
             "number of processes to start on this machine, with --devices each (then, 0 means one "
             "each); they communicate over Gloo, or NCCL between GPUs");
DEFINE_string(
    link, "",
    "with --nproc: puts every process into a network of its own, with a link of this speed "
    "that the kernel shapes: 100mbit, 1gbit, unshaped; needs root and iproute2");
DEFINE_int32(virtual_devices, 0,
             "on GPUs: split one GPU into this many virtual devices; 0: whole GPUs");
DEFINE_bool(cuda_graphs, false, "on GPUs: record repeated passes as CUDA graphs");
DEFINE_string(engines, "",
              "on GPUs: JSON file with the engines of cuDNN and cuBLASLt to use; "
              "empty: the first that the libraries propose");
DEFINE_bool(time_engines, false,
            "time the engines of operations missing in --engines, and add the fastest to the file");
DEFINE_bool(deterministic, true,
            "on GPUs: false lets engines add in an order that varies from run to run");
DEFINE_string(strategies,
              "data_parallel,gpipe,1f1b,interleaved,zb-h1,zb-v,diffusionpipe,offline_cache",
              "strategies to compare, separated by commas; or, separated by semicolons, also "
              "compositions such as 'schedule=1f1b,frozen=fill'; bazel run //tools:plan -- --list "
              "shows all");
DEFINE_int32(global_batch, 32, "images per training step, over all devices");
DEFINE_int32(micro_batches, 0,
             "number of micro-batches of a pipeline; 0: the best number for each strategy");
DEFINE_int32(steps, 3, "number of measured training steps per turn");
DEFINE_int32(warmup_steps, 1, "number of steps before the measured ones per turn");
DEFINE_int32(repeats, 15,
             "number of turns per strategy; strategies take turns so that drift of the machine's "
             "speed affects all equally");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_string(dtype, "fp32",
              "element type of the computation, fp32 or bf16; weights are fp32. On CPUs without "
              "AMX or AVX512-BF16, fp32 is faster");
DEFINE_int32(frozen_quantum, 0,
             "number of samples per pass of frozen components; 0: up to 4, a divisor of a device's "
             "share of the batch");
DEFINE_uint64(seed, 1, "seed for initial weights, data order, noise and timesteps");
DEFINE_string(out, "", "folder for the report, traces and results; empty: out/ and its name");
DEFINE_string(json, "", "also write the results to this file");
DEFINE_bool(explain, false, "also print what the columns of the table mean");
DEFINE_bool(on_clusters, true,
            "at the end, also simulate the strategies on clusters, with a model of full size");
FLAG_RANGE(devices, 0, 1'024);
FLAG_RANGE(nproc, 1, 1'024);
FLAG_RANGE(virtual_devices, 0, 1'024);
FLAG_RANGE(global_batch, 1, 1 << 20);
FLAG_RANGE(micro_batches, 0, 65'536);
FLAG_RANGE(steps, 1, 1'000'000);
FLAG_RANGE(warmup_steps, 1, 1'000'000);
FLAG_RANGE(repeats, 1, 1'000'000);
FLAG_RANGE(frozen_quantum, 0, 65'536);

namespace dpipe::bench {
namespace {

constexpr int kDone = 0, kInterrupted = 130;  // exit statuses

constexpr char kStopping[] =
    "ending after this turn, with a report of the turns that all strategies have taken; a second "
    "signal ends at once, without";

// Prints messages about the preparation, which the progress line does not cover.
void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

// Checks that the plan's simulation, which is shown beside the measured steps, has a steady step.
// For a strategy that works for the next step, that needs one between the first and the last.
absl::Status CheckNumSteps(const Strategy& strategy) {
  constexpr int kMinSteps = 3;
  if (strategy.frozen() != "fill" || FLAGS_warmup_steps + FLAGS_steps >= kMinSteps) {
    return absl::OkStatus();
  }
  return CommandLineError(absl::StrCat(
      "--warmup_steps=", FLAGS_warmup_steps, " and --steps=", FLAGS_steps, " must be at least ",
      kMinSteps, " with strategy ", strategy.name(), ", which also works for the next step"));
}

absl::Status CheckFlags(const std::vector<std::string>& strategies) {
  DPIPE_RETURN_IF_ERROR(CheckChoice("backend", FLAGS_backend, {"auto", "cpu", "cuda"}));
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(ParseComputeDType(FLAGS_dtype).status()));
  if (!FLAGS_link.empty()) {
    DPIPE_RETURN_IF_ERROR(AsCommandLineError(ParseLinkSpeed(FLAGS_link).status()));
    if (FLAGS_nproc == 1) return CommandLineError("--link joins processes, but --nproc is 1");
  }
  if (strategies.empty()) return CommandLineError("--strategies is empty");
  for (const std::string& name : strategies) {
    const absl::StatusOr<Strategy> strategy = FindStrategy(name);
    DPIPE_RETURN_IF_ERROR(AsCommandLineError(strategy.status()));
    DPIPE_RETURN_IF_ERROR(CheckNumSteps(*strategy));
  }
  return absl::OkStatus();
}

absl::StatusOr<PipelineComparisonOptions> Options(const PipelineProgram& program,
                                                  const std::vector<std::string>& strategies,
                                                  ProcessGroup* processes) {
  PipelineComparisonOptions options;
  options.benchmark = program.name;
  options.model = FLAGS_model;
  models::TrainingSetupOptions& setup = options.setup;
  setup.model = program.model;
  const absl::StatusOr<std::string> folder = models::FindModelFolder(FLAGS_model);
  DPIPE_RETURN_IF_ERROR(AsCommandLineError(folder.status()));
  setup.model_folder = *folder;
  const auto find_data = [&]() -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(
        setup.data.folder,
        models::FindDataFor(setup.model_folder, setup.model.kind, FLAGS_data, Say));
    return absl::OkStatus();
  };
  DPIPE_RETURN_IF_ERROR(
      processes == nullptr ? find_data() : processes->RunFirstOnHost("the data set", find_data));
  setup.processes = processes;
  setup.backend = FLAGS_backend;
  setup.num_devices = FLAGS_devices;
  setup.virtual_devices = FLAGS_virtual_devices;
  setup.graphs.enabled = FLAGS_cuda_graphs;
  setup.graphs.say = Say;
  setup.engines = FLAGS_engines.empty() ? "" : UserPath(FLAGS_engines);
  setup.time_engines = FLAGS_time_engines;
  setup.deterministic = FLAGS_deterministic;
  setup.global_batch = FLAGS_global_batch;
  DPIPE_ASSIGN_OR_RETURN(setup.compute_dtype, ParseComputeDType(FLAGS_dtype));
  setup.frozen_quantum = FLAGS_frozen_quantum;
  setup.seed = FLAGS_seed;
  setup.caption_drop = program.caption_drop;
  setup.optimizer.learning_rate.peak = 1e-3f;
  setup.optimizer.learning_rate.warmup_steps = 20;
  options.comparison.strategies = strategies;
  options.comparison.num_micro_batches = FLAGS_micro_batches;
  options.comparison.steps = FLAGS_steps;
  options.comparison.warmup_steps = FLAGS_warmup_steps;
  options.comparison.repeats = FLAGS_repeats;
  return options;
}

std::string OutFolder(const PipelineProgram& program) {
  return FLAGS_out.empty() ? OutputPath("out/" + program.name) : UserPath(FLAGS_out);
}

// A signal leaves out the table.
absl::Status PrintOnClusters(const PipelineProgram& program,
                             const std::vector<std::string>& strategies,
                             const std::function<std::string()>& stop_requested) {
  OnClustersOptions options;
  options.model = program.full_size_model;
  options.strategies = strategies;
  options.clusters = DefaultClusters();
  options.stop_requested = stop_requested;
  const absl::StatusOr<Results> results = SimulateOnClusters(options);
  if (absl::IsCancelled(results.status())) return absl::OkStatus();
  DPIPE_RETURN_IF_ERROR(results.status());
  Say(absl::StrCat("\n", OnClustersText(*results)));
  return absl::OkStatus();
}

// Returns the exit status; see PipelineMain.
absl::StatusOr<int> Write(const PipelineProgram& program, const std::string& command_line,
                          const std::vector<std::string>& strategies,
                          const std::function<std::string()>& stop_requested,
                          Comparison* comparison) {
  CaseResult& results = comparison->results;
  results.set_command_line(command_line);
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  for (const auto& flag : flags) {
    if (flag.filename.find("pipeline_main") != std::string::npos) {
      (*results.mutable_flags())[flag.name] = flag.current_value;
    }
  }
  OutputOptions output;
  output.benchmark = program.name;
  output.folder = OutFolder(program);
  if (!FLAGS_json.empty()) output.json_path = UserPath(FLAGS_json);
  output.explains = FLAGS_explain;
  DPIPE_RETURN_IF_ERROR(WriteAndPrint(comparison, output));
  if (FLAGS_on_clusters && !program.full_size_model.empty() && results.interrupted().empty()) {
    DPIPE_RETURN_IF_ERROR(PrintOnClusters(program, strategies, stop_requested));
  }
  if (!results.interrupted().empty()) return kInterrupted;
  return AnyInvalid(results) ? kBadResult : kDone;
}

// Runs this process's part; in a run of several processes the first one has the results.
absl::StatusOr<int> CompareAs(const PipelineProgram& program, const std::string& command_line,
                              const std::vector<std::string>& strategies, ProcessGroup* processes) {
  const bool leads = processes == nullptr || processes->is_leader();
  const StopRequest stop(leads ? kStopping : nullptr);
  DPIPE_ASSIGN_OR_RETURN(PipelineComparisonOptions options,
                         Options(program, strategies, processes));
  options.comparison.stop_requested = [&]() -> std::string {
    return stop.signal() == nullptr ? "" : stop.signal();
  };
  options.setup.should_stop = [&stop] { return stop.signal() != nullptr; };
  DPIPE_RETURN_IF_ERROR(
      CheckNotInData({"--out=", OutFolder(program)}, {"--data=", options.setup.data.folder}));
  DPIPE_ASSIGN_OR_RETURN(Comparison comparison, ComparePipelines(options, Say));
  if (!leads) return kDone;
  return Write(program, command_line, strategies, options.comparison.stop_requested, &comparison);
}

// Runs in a process that the launcher has started. An error in one process ends all.
absl::StatusOr<int> CompareAsProcess(const PipelineProgram& program,
                                     const std::string& command_line,
                                     const std::vector<std::string>& strategies) {
  DPIPE_ASSIGN_OR_RETURN(const auto address, JobAddressFromEnvironment(ProcessEnvironment));
  ProcessGroupOptions options;
  options.ranks_per_process = std::max(1, FLAGS_devices);
  options.listener_fd = InheritedListener().value_or(-1);
  DPIPE_ASSIGN_OR_RETURN(const auto processes, ProcessGroup::Join(*address, options));
  const ExitWithJob end(&processes->store());
  const absl::StatusOr<int> done = CompareAs(program, command_line, strategies, processes.get());
  if (!done.ok()) processes->store().Fail(done.status());
  return done;
}

absl::StatusOr<int> Main(const PipelineProgram& program, const std::vector<std::string>& arguments,
                         const std::string& command_line) {
  const std::vector<std::string> strategies = SplitStrategies(FLAGS_strategies);
  DPIPE_RETURN_IF_ERROR(CheckFlags(strategies));
  if (StartedByLauncher()) return CompareAsProcess(program, command_line, strategies);
  if (FLAGS_nproc == 1) return CompareAs(program, command_line, strategies, nullptr);
  std::unique_ptr<ShapedNetwork> network;
  if (!FLAGS_link.empty()) {
    DPIPE_ASSIGN_OR_RETURN(const double speed, ParseLinkSpeed(FLAGS_link));
    DPIPE_ASSIGN_OR_RETURN(network, ShapedNetwork::Create(FLAGS_nproc, speed));
  }
  LaunchOptions launch;
  launch.network = network.get();
  launch.num_processes = FLAGS_nproc;
  launch.arguments = arguments;
  DPIPE_ASSIGN_OR_RETURN(const int exit_code, LaunchLocalProcesses(launch));
  if (exit_code == kDone || exit_code == kBadResult || exit_code == kInterrupted) return exit_code;
  return absl::InternalError(
      absl::StrCat(FLAGS_nproc, " processes have ended with exit code ", exit_code));
}

}  // namespace

int PipelineMain(const PipelineProgram& program, int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string start = absl::StrCat("bazel run //bench:", program.name, " --");
  std::string command_line = start;
  for (const std::string& argument : arguments) {
    absl::StrAppend(&command_line, " ", ShellCommand({argument}));
  }
  for (const auto& [flag, value] : program.defaults) {
    gflags::SetCommandLineOptionWithMode(flag.c_str(), value.c_str(), gflags::SET_FLAGS_DEFAULT);
  }
  Command command;
  command.name = program.name;
  command.usage = absl::StrCat(program.summary,
                               " by several strategies in turns on this machine and compares their "
                               "speed.\n  ",
                               start, " --strategies=gpipe,diffusionpipe --repeats=5\n\n",
                               "Exit codes: 0 done, 1 refused (why is on standard error), 2 wrong "
                               "command line, 4 a\nstrategy's result is invalid, 130 stopped by "
                               "a signal, with a report of what was measured.\n");
  command.groups = {
      {"What is trained", {"model", "data", "global_batch", "dtype", "seed"}},
      {"How", {"strategies", "micro_batches", "frozen_quantum"}},
      {"Measurement", {"steps", "warmup_steps", "repeats"}},
      {"Results", {"out", "json", "explain", "on_clusters"}},
      {"Devices", {"backend", "devices", "nproc", "link", "virtual_devices"}},
      {"GPU libraries", {"engines", "time_engines", "deterministic", "cuda_graphs"}},
  };
  command.most_used = {"model",   "data",  "strategies", "global_batch", "backend",
                       "devices", "dtype", "repeats",    "steps",        "out"};
  return RunCommandWithCode(argc, argv, command, [&]() -> absl::StatusOr<int> {
    const absl::StatusOr<int> done = Main(program, arguments, command_line);
    if (!absl::IsCancelled(done.status())) return done;
    ExitCode(program.name, done.status());  // prints the reason
    return kInterrupted;
  });
}

}  // namespace dpipe::bench
