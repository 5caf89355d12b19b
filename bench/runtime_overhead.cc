// Measures the cost of the runtime in the main job, per instruction and as a share of the step. It
// is the time in which a rank neither computes nor waits for something that no runtime could have
// had earlier. It includes late wake-ups, and the beginning and end of a step
// (core/runtime/overhead_clock.h).
//   bazel run -c opt //bench:runtime_overhead
// Run nothing else at the same time.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "baselines/registry.h"
#include "bench/comparison/pipeline_comparison.h"
#include "core/comm/in_process.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/planner/search.h"
#include "core/report/machine.h"
#include "core/report/statistics/stats.h"
#include "core/report/table.h"
#include "core/runtime/overhead_clock.h"
#include "core/train/job.h"
#include "gflags/gflags.h"
#include "models/folder/find_folders.h"
#include "models/trainable/training_setup.h"

DEFINE_string(model, "tiny_sd", "name of a built-in model, or a folder in diffusers layout");
DEFINE_int32(devices, 0, "number of devices to train on; 0: one per core");
DEFINE_string(strategies, "data_parallel,gpipe,1f1b,diffusionpipe,opendiffusionpipe,offline_cache",
              "strategies to measure, separated by commas");
DEFINE_int32(global_batch, 32, "images per training step, over all devices");
DEFINE_int32(steps, 5, "number of measured training steps per turn");
DEFINE_int32(repeats, 9, "number of turns per strategy; medians over the turns are shown");
FLAG_RANGE(devices, 0, 1'024);
FLAG_RANGE(global_batch, 1, 1 << 20);
FLAG_RANGE(steps, 1, 1'000'000);
FLAG_RANGE(repeats, 1, 1'000'000);

namespace dpipe::bench {
namespace {

constexpr int kWarmupSteps = 2;

using report::Median;

// A strategy that takes turns with others, and its results per turn.
struct Contender {
  std::string name;
  std::unique_ptr<OverheadClock> clock;
  std::unique_ptr<LocalSession> session;  // uses the clock
  std::vector<double> instructions, each_us, step_us, wake_up_us, run_us, step_ms;
  double loss = 0;
};

absl::StatusOr<Contender> Prepare(TrainingJob job, const std::string& name,
                                  const ModelProfile& profile, const ClusterSpec& cluster) {
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(name));
  PlanOptions plan_options;
  plan_options.global_batch = FLAGS_global_batch;
  DPIPE_ASSIGN_OR_RETURN(const PlanResult planned,
                         MakePlan(strategy, profile, cluster, plan_options));
  Contender contender;
  contender.name = name;
  contender.clock = std::make_unique<OverheadClock>(planned.plan.num_devices());
  job.clock = contender.clock.get();
  job.connect = [observer = contender.clock.get()](const auto& devices, absl::Duration deadline) {
    InProcessOptions options;
    options.deadline = deadline;
    options.observer = observer;
    return CreateInProcessCommunicators(static_cast<int>(devices.size()), options);
  };
  DPIPE_ASSIGN_OR_RETURN(contender.session, StartSession(job, planned.plan));
  DPIPE_RETURN_IF_ERROR(
      contender.session->Run(kWarmupSteps, /*is_last=*/false, /*record=*/false).status());
  return contender;
}

// Returns the costs of the most expensive rank between two readings of the clock.
RuntimeOverhead WorstSince(const std::vector<RuntimeOverhead>& before,
                           const std::vector<RuntimeOverhead>& now) {
  RuntimeOverhead worst;
  for (size_t r = 0; r < now.size(); ++r) {
    RuntimeOverhead of_rank = now[r];
    of_rank.num_instructions -= before[r].num_instructions;
    of_rank.compute_ns -= before[r].compute_ns;
    of_rank.waiting_ns -= before[r].waiting_ns;
    of_rank.overhead_ns -= before[r].overhead_ns;
    of_rank.wake_up_ns -= before[r].wake_up_ns;
    if (of_rank.overhead_ns > worst.overhead_ns) worst = of_rank;
  }
  return worst;
}

absl::Status TakeTurn(Contender* contender) {
  const std::vector<RuntimeOverhead> before = contender->clock->overheads();
  const Nanos start_ns = MonotonicNow();
  DPIPE_ASSIGN_OR_RETURN(const RunResult run, contender->session->Run(FLAGS_steps, false, false));
  const Nanos run_ns = MonotonicNow() - start_ns;
  const RuntimeOverhead worst = WorstSince(before, contender->clock->overheads());
  std::vector<double> step_ms;
  Nanos steps_ns = 0;
  for (const StepResult& step : run.steps) {
    step_ms.push_back(static_cast<double>(step.duration_ns) / kNanosPerMilli);
    steps_ns += step.duration_ns;
  }
  const double per_step_us = 1.0 / FLAGS_steps / kNanosPerMicro;
  contender->instructions.push_back(static_cast<double>(worst.num_instructions) / FLAGS_steps);
  contender->each_us.push_back(worst.PerInstruction() / kNanosPerMicro);
  contender->step_us.push_back(static_cast<double>(worst.overhead_ns) * per_step_us);
  contender->wake_up_us.push_back(static_cast<double>(worst.wake_up_ns) * per_step_us);
  contender->run_us.push_back(static_cast<double>(run_ns - steps_ns) / kNanosPerMicro);
  contender->step_ms.push_back(Median(std::move(step_ms)));
  contender->loss = run.steps.back().loss;
  return absl::OkStatus();
}

std::vector<std::string> Row(const Contender& of) {
  const double step_us = Median(of.step_us), step_ms = Median(of.step_ms);
  return {of.name,
          absl::StrFormat("%.0f", Median(of.instructions)),
          absl::StrFormat("%.1f", Median(of.each_us)),
          absl::StrFormat("%.0f", step_us),
          absl::StrFormat("%.0f", Median(of.wake_up_us)),
          absl::StrFormat("%.1f", step_ms),
          absl::StrFormat("%.3f %%", 100 * step_us * kNanosPerMicro / (step_ms * kNanosPerMilli)),
          absl::StrFormat("%.0f", Median(of.run_us)),
          absl::StrFormat("%.4f", of.loss)};
}

absl::Status CheckFlags(const std::vector<std::string>& strategies) {
  for (const std::string& name : strategies) {
    DPIPE_RETURN_IF_ERROR(AsCommandLineError(FindStrategy(name).status()));
  }
  if (strategies.empty()) return CommandLineError("--strategies is empty");
  return absl::OkStatus();
}

absl::Status Main() {
  const std::vector<std::string> strategies = SplitStrategies(FLAGS_strategies);
  DPIPE_RETURN_IF_ERROR(CheckFlags(strategies));
  models::TrainingSetupOptions options;
  DPIPE_ASSIGN_OR_RETURN(options.model_folder, models::FindModelFolder(FLAGS_model));
  const auto say = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  DPIPE_ASSIGN_OR_RETURN(options.data.folder, models::FindDataFolder("", say, false));
  options.num_devices = FLAGS_devices;
  options.global_batch = FLAGS_global_batch;
  options.seed = 1;
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options));
  say(setup->Describe());
  if (AnyNeedsCache(strategies)) {
    const int64_t steps = kWarmupSteps + int64_t{FLAGS_repeats} * FLAGS_steps + 1;
    DPIPE_RETURN_IF_ERROR(setup->BuildCache(steps).status());
  }
  DPIPE_ASSIGN_OR_RETURN(const ModelProfile profile,
                         ProfileJob(setup->job(), CandidateLocalBatches(FLAGS_global_batch)));
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(setup->job()));
  std::vector<Contender> contenders;
  for (const std::string& name : strategies) {
    DPIPE_ASSIGN_OR_RETURN(contenders.emplace_back(),
                           Prepare(setup->job(), name, profile, cluster));
  }
  for (int turn = 0; turn < FLAGS_repeats; ++turn) {
    for (Contender& contender : contenders) DPIPE_RETURN_IF_ERROR(TakeTurn(&contender));
  }
  report::Table table({"strategy", "instructions/step", "us/instruction", "us/step",
                       "wake-up us/step", "step ms", "share of step", "us/run", "last loss"});
  for (const Contender& contender : contenders) table.AddRow(Row(contender));
  std::printf(
      "\nTime in which a rank neither computes nor waits for another rank's work, maximum over "
      "ranks;\nmedians of %d turns of %d steps; %s:\n\n%s\n'us/run': the cost, in addition to the "
      "steps, of handing a run to the ranks' threads and back.\n",
      FLAGS_repeats, FLAGS_steps, report::DescribeMachine(report::CollectMachineInfo()).c_str(),
      table.ToMarkdown().c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  const dpipe::Command command = {
      "runtime_overhead",
      "Measures the time of a training step in which the runtime neither computes nor waits.\n"
      "  bazel run -c opt //bench:runtime_overhead -- --strategies=1f1b,diffusionpipe\n"};
  return dpipe::RunCommand(argc, argv, command, dpipe::bench::Main);
}
