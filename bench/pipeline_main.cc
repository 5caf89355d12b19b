#include "bench/pipeline_main.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "bench/output.h"
#include "bench/pipeline_comparison.h"
#include "core/base/run_paths.h"
#include "core/base/stop_request.h"
#include "core/comm/rendezvous/end_with_job.h"
#include "core/comm/rendezvous/job_address.h"
#include "core/comm/rendezvous/local_launcher.h"
#include "core/comm/rendezvous/process_group.h"
#include "gflags/gflags.h"
#include "models/stable_diffusion/folders.h"
#include "models/trainable/find_data.h"

DEFINE_string(model, "tiny_sd", "a built-in model's name, or a folder in diffusers layout");
DEFINE_string(backend, "cpu", "cpu, cuda, or auto: cuda where there is a GPU, else cpu");
DEFINE_int32(devices, 0, "devices to train on; 0: one for each core, or every GPU");
DEFINE_int32(nproc, 1,
             "processes to train by, started here, with --devices each (0: one each then); their "
             "messages go over Gloo, or NCCL between GPUs");
DEFINE_int32(virtual_devices, 0, "with --backend=cuda: divide one GPU into so many devices");
DEFINE_bool(
    cuda_graphs, false,
    "with --backend=cuda: record passes that repeat as CUDA graphs; never run on a GPU yet");
DEFINE_string(engines, "",
              "with --backend=cuda: a file of which of cuDNN's and cuBLASLt's engines runs what; "
              "empty: everywhere the one that they name first");
DEFINE_bool(time_engines, false,
            "time the engines of operations that --engines lacks, and add the fastest to it");
DEFINE_bool(deterministic, true,
            "with --backend=cuda: false lets engines add in an order that varies from run to run");
DEFINE_string(strategies, "data_parallel,gpipe,1f1b,diffusionpipe,offline_cache",
              "strategies to compare, separated by commas; also compositions such as "
              "'schedule=1f1b,frozen=fill', separated by semicolons then");
DEFINE_int32(global_batch, 32, "images of a training step, over all devices");
DEFINE_int32(micro_batches, 0, "micro-batches of a pipeline; 0: each strategy's best");
DEFINE_int32(steps, 4, "measured steps, a repeat");
DEFINE_int32(warmup_steps, 1, "steps before the measured ones, a repeat");
DEFINE_int32(repeats, 15,
             "turns that every strategy gets: many short ones, so that drift hits all alike");
DEFINE_string(data, "", "folder of images with captions; empty: the built-in data set");
DEFINE_string(dtype, "fp32",
              "fp32 or bf16: what is computed in; weights are fp32. On CPUs without AMX, or "
              "AMD's AVX512-BF16, fp32 is the faster");
DEFINE_int32(frozen_quantum, 0,
             "frozen components run on this many samples at a time; 0: up to 4, as "
             "many as divide a device's share of the batch");
DEFINE_uint64(seed, 1, "of initial weights, order of the data, noise and timesteps");
DEFINE_string(out, "", "folder for the report, traces and results; empty: out/ and its name");
DEFINE_string(json, "", "also write the results there");

namespace dpipe::bench {
namespace {

constexpr int kDone = 0, kInvalid = 2, kInterrupted = 130;  // exit statuses

// Steps that the progress line cannot speak of, because they come before the comparison.
void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

absl::Status CheckFlags(const std::vector<std::string>& strategies) {
  if (FLAGS_backend != "auto" && FLAGS_backend != "cpu" && FLAGS_backend != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown --backend=", FLAGS_backend, "; there are auto, cpu and cuda"));
  }
  if (FLAGS_dtype != "fp32" && FLAGS_dtype != "bf16") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown --dtype=", FLAGS_dtype, "; there are fp32 and bf16"));
  }
  struct Bound {
    const char* name;
    int value, least;
  };
  for (const Bound& flag :
       {Bound{"global_batch", FLAGS_global_batch, 1}, Bound{"steps", FLAGS_steps, 1},
        Bound{"warmup_steps", FLAGS_warmup_steps, 1}, Bound{"repeats", FLAGS_repeats, 1},
        Bound{"nproc", FLAGS_nproc, 1}, Bound{"devices", FLAGS_devices, 0},
        Bound{"micro_batches", FLAGS_micro_batches, 0},
        Bound{"virtual_devices", FLAGS_virtual_devices, 0},
        Bound{"frozen_quantum", FLAGS_frozen_quantum, 0}}) {
    if (flag.value < flag.least) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag.name, "=", flag.value, " must be at least ", flag.least));
    }
  }
  if (strategies.empty()) return absl::InvalidArgumentError("--strategies names none");
  for (const std::string& strategy : strategies) {
    DPIPE_RETURN_IF_ERROR(FindStrategy(strategy).status());
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
  DPIPE_ASSIGN_OR_RETURN(setup.model_folder, models::FindModelFolder(FLAGS_model));
  const auto find_data = [&]() -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(
        setup.data.folder,
        models::FindDataFor(setup.model_folder, setup.model.kind, FLAGS_data, Say));
    return absl::OkStatus();
  };
  DPIPE_RETURN_IF_ERROR(
      processes == nullptr ? find_data() : processes->FirstOnHostFirst("the data set", find_data));
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
  setup.compute_dtype = FLAGS_dtype == "bf16" ? DType::kBf16 : DType::kF32;
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

// The exit status: see PipelineMain.
absl::StatusOr<int> Write(const PipelineProgram& program, const std::string& command_line,
                          Comparison* comparison) {
  report::BenchResults& results = comparison->results;
  results.command_line = command_line;
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  for (const auto& flag : flags) {
    if (flag.filename.find("pipeline_main") != std::string::npos) {
      results.flags[flag.name] = flag.current_value;
    }
  }
  OutputOptions output;
  output.folder = FLAGS_out.empty() ? OutputPath("out/" + program.name) : UserPath(FLAGS_out);
  if (!FLAGS_json.empty()) output.json_path = UserPath(FLAGS_json);
  DPIPE_RETURN_IF_ERROR(WriteAndPrint(comparison, output));
  if (!results.interrupted.empty()) return kInterrupted;
  return AnyInvalid(results) ? kInvalid : kDone;
}

// Of several processes this one's part; the first one has the results.
absl::StatusOr<int> CompareAs(const PipelineProgram& program, const std::string& command_line,
                              const std::vector<std::string>& strategies, ProcessGroup* processes) {
  const StopRequest stop;
  DPIPE_ASSIGN_OR_RETURN(PipelineComparisonOptions options,
                         Options(program, strategies, processes));
  options.comparison.stop_requested = [&]() -> std::string {
    return stop.signal() == nullptr ? "" : stop.signal();
  };
  DPIPE_ASSIGN_OR_RETURN(Comparison comparison, ComparePipelines(options, Say));
  if (processes != nullptr && !processes->is_leader()) return kDone;
  return Write(program, command_line, &comparison);
}

// A process that the launcher has started. An error of one is all processes' end.
absl::StatusOr<int> CompareAsProcess(const PipelineProgram& program,
                                     const std::string& command_line,
                                     const std::vector<std::string>& strategies) {
  DPIPE_ASSIGN_OR_RETURN(const auto address, JobAddressFromEnvironment(ProcessEnvironment));
  ProcessGroupOptions options;
  options.ranks_per_process = std::max(1, FLAGS_devices);
  options.listener_fd = InheritedListener().value_or(-1);
  DPIPE_ASSIGN_OR_RETURN(const auto processes, ProcessGroup::Join(*address, options));
  const EndWithJob end(&processes->store());
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
  LaunchOptions launch;
  launch.num_processes = FLAGS_nproc;
  launch.arguments = arguments;
  DPIPE_ASSIGN_OR_RETURN(const int exit_code, LaunchLocalProcesses(launch));
  if (exit_code == kDone || exit_code == kInvalid || exit_code == kInterrupted) return exit_code;
  return absl::InternalError(
      absl::StrCat(FLAGS_nproc, " processes have ended with exit code ", exit_code));
}

}  // namespace

int PipelineMain(const PipelineProgram& program, int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string command = absl::StrCat("bazel run //bench:", program.name, " --");
  std::string command_line = command;
  for (int i = 1; i < argc; ++i) absl::StrAppend(&command_line, " ", argv[i]);
  gflags::SetUsageMessage(
      absl::StrCat(program.summary, " by several strategies, interleaved, and compares their ",
                   "speed.\n  ", command, " --strategies=gpipe,diffusionpipe --steps=20"));
  for (const auto& [flag, value] : program.defaults) {
    gflags::SetCommandLineOptionWithMode(flag.c_str(), value.c_str(), gflags::SET_FLAGS_DEFAULT);
  }
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (argc > 1) {
    std::fprintf(stderr, "%s: unexpected argument '%s'; see --help\n", program.name.c_str(),
                 argv[1]);
    return 1;
  }
  const absl::StatusOr<int> done = Main(program, arguments, command_line);
  if (done.ok()) return *done;
  const std::string message(done.status().message());
  std::fprintf(stderr, "%s: %s\n", program.name.c_str(), message.c_str());
  return absl::IsCancelled(done.status()) ? kInterrupted : 1;
}

}  // namespace dpipe::bench
