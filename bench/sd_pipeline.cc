// The main job: trains Stable Diffusion by several strategies on this machine and prints how they
// compare.
//   bazel run //bench:sd_pipeline
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "baselines/registry.h"
#include "bench/comparison.h"
#include "bench/output.h"
#include "core/base/run_paths.h"
#include "gflags/gflags.h"
#include "models/stable_diffusion/folders.h"
#include "models/trainable/training_setup.h"

DEFINE_string(model, "tiny_sd", "tiny_sd, or a folder in diffusers layout");
DEFINE_string(backend, "auto", "auto or cpu");
DEFINE_int32(devices, 0, "devices to train on; 0: one for each core");
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
              "fp32 or bf16: what is computed in; weights are fp32. On CPUs without AMX "
              "fp32 is the faster");
DEFINE_int32(frozen_quantum, 0,
             "frozen components run on this many samples at a time; 0: up to 4, as "
             "many as divide a device's share of the batch");
DEFINE_uint64(seed, 1, "of initial weights, order of the data, noise and timesteps");
DEFINE_string(out, "", "folder for the report, traces and results; empty: out/sd_pipeline");
DEFINE_string(json, "", "also write the results there");

namespace dpipe::bench {
namespace {

// Steps that the progress line cannot speak of, because they come before the comparison.
void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

std::vector<std::string> SplitStrategies(const std::string& flag) {
  // A composition has commas of its own.
  const bool compositions = flag.find('=') != std::string::npos;
  return absl::StrSplit(flag, compositions ? ';' : ',', absl::SkipWhitespace());
}

absl::Status CheckFlags(const std::vector<std::string>& strategies) {
  if (FLAGS_backend != "auto" && FLAGS_backend != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown --backend=", FLAGS_backend, "; there are auto and cpu"));
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
        Bound{"devices", FLAGS_devices, 0}, Bound{"micro_batches", FLAGS_micro_batches, 0},
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

bool NeedsCache(const std::vector<std::string>& strategies) {
  for (const std::string& name : strategies) {
    const auto strategy = FindStrategy(name);
    if (strategy.ok() && strategy->frozen() == "cached") return true;
  }
  return false;
}

absl::Status BuildCache(models::TrainingSetup* setup) {
  report::Progress progress(report::StandardErrorProgress("sd_pipeline"));
  const int64_t steps = int64_t{FLAGS_repeats} * (FLAGS_steps + FLAGS_warmup_steps);
  const Nanos start = MonotonicNow();
  DPIPE_ASSIGN_OR_RETURN(const models::CachedInputs* cache,
                         setup->BuildCache(steps, [&](double done) {
                           report::ProgressState state;
                           state.phase = "filling the offline cache";
                           state.fraction_done = done;
                           progress.Update(state);
                         }));
  progress.Message(absl::StrCat("offline cache: ", cache->num_images, " images and ",
                                cache->num_captions, " captions, ", FormatBytes(cache->size_bytes),
                                ", computed in ", FormatDuration(MonotonicNow() - start),
                                " (not counted below)"));
  return absl::OkStatus();
}

models::TrainingSetupOptions SetupOptions() {
  models::TrainingSetupOptions options;
  options.num_devices = FLAGS_devices;
  options.global_batch = FLAGS_global_batch;
  options.compute_dtype = FLAGS_dtype == "bf16" ? DType::kBf16 : DType::kF32;
  options.frozen_quantum = FLAGS_frozen_quantum;
  options.seed = FLAGS_seed;
  options.optimizer.learning_rate.peak = 1e-3f;
  options.optimizer.learning_rate.warmup_steps = 20;
  return options;
}

absl::Status Main(const std::string& command_line) {
  const std::vector<std::string> strategies = SplitStrategies(FLAGS_strategies);
  DPIPE_RETURN_IF_ERROR(CheckFlags(strategies));
  models::TrainingSetupOptions options = SetupOptions();
  DPIPE_ASSIGN_OR_RETURN(options.model_folder, models::FindModelFolder(FLAGS_model));
  DPIPE_ASSIGN_OR_RETURN(options.data.folder, models::FindDataFolder(FLAGS_data, Say));
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options));
  Say(setup->Describe());

  if (NeedsCache(strategies)) DPIPE_RETURN_IF_ERROR(BuildCache(setup.get()));
  report::Progress progress(report::StandardErrorProgress("sd_pipeline"));
  ComparisonOptions comparison_options;
  comparison_options.strategies = strategies;
  comparison_options.global_batch = FLAGS_global_batch;
  comparison_options.num_micro_batches = FLAGS_micro_batches;
  comparison_options.steps = FLAGS_steps;
  comparison_options.warmup_steps = FLAGS_warmup_steps;
  comparison_options.repeats = FLAGS_repeats;
  DPIPE_ASSIGN_OR_RETURN(Comparison comparison,
                         CompareStrategies(setup->job(), comparison_options, &progress));
  progress.Finish();

  report::BenchResults& results = comparison.results;
  results.benchmark = "sd_pipeline";
  results.model = FLAGS_model;
  results.backend = "cpu";
  results.command_line = command_line;
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  for (const auto& flag : flags) {
    if (flag.filename.find("sd_pipeline") != std::string::npos) {
      results.flags[flag.name] = flag.current_value;
    }
  }
  OutputOptions output;
  output.folder = FLAGS_out.empty() ? OutputPath("out/sd_pipeline") : UserPath(FLAGS_out);
  if (!FLAGS_json.empty()) output.json_path = UserPath(FLAGS_json);
  return WriteAndPrint(&comparison, output);
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  std::string command_line = "bazel run //bench:sd_pipeline --";
  for (int i = 1; i < argc; ++i) absl::StrAppend(&command_line, " ", argv[i]);
  gflags::SetUsageMessage(
      "trains Stable Diffusion by several strategies, interleaved, and compares their speed.\n"
      "  bazel run //bench:sd_pipeline -- --strategies=gpipe,diffusionpipe --steps=20");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (argc > 1) {
    std::fprintf(stderr, "sd_pipeline: unexpected argument '%s'; see --help\n", argv[1]);
    return 1;
  }
  const absl::Status status = dpipe::bench::Main(command_line);
  if (status.ok()) return 0;
  std::fprintf(stderr, "sd_pipeline: %s\n", std::string(status.message()).c_str());
  return 1;
}
