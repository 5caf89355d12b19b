// What the runtime itself costs in the main job: processor time of the ranks' threads outside their
// computations, an instruction and as a part of the step.
//   bazel run -c opt //bench:runtime_overhead
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "baselines/registry.h"
#include "bench/pipeline_comparison.h"
#include "core/planner/search.h"
#include "core/report/machine.h"
#include "core/report/table.h"
#include "core/runtime/overhead_clock.h"
#include "core/train/job.h"
#include "gflags/gflags.h"
#include "models/stable_diffusion/folders.h"
#include "models/trainable/training_setup.h"

DEFINE_string(model, "tiny_sd", "a built-in model's name, or a folder in diffusers layout");
DEFINE_int32(devices, 0, "devices to train on; 0: one for each core");
DEFINE_string(strategies, "data_parallel,gpipe,1f1b,diffusionpipe,opendiffusionpipe",
              "separated by commas");
DEFINE_int32(global_batch, 32, "images of a training step, over all devices");
DEFINE_int32(steps, 20, "measured steps");

namespace dpipe::bench {
namespace {

constexpr int kWarmupSteps = 2;

double MedianStep(const RunResult& run) {
  std::vector<Nanos> steps;
  for (const StepResult& step : run.steps) steps.push_back(step.duration_ns);
  std::nth_element(steps.begin(), steps.begin() + steps.size() / 2, steps.end());
  return static_cast<double>(steps[steps.size() / 2]);
}

// Both runs of a session count from its start, so what the first one cost is taken away.
RuntimeOverhead Since(const RuntimeOverhead& before, const RuntimeOverhead& now) {
  return {now.num_instructions - before.num_instructions, now.compute_ns - before.compute_ns,
          now.overhead_ns - before.overhead_ns};
}

absl::Status Measure(const models::TrainingSetup& setup, const std::string& name,
                     const ModelProfile& profile, const ClusterSpec& cluster,
                     report::Table* table) {
  DPIPE_ASSIGN_OR_RETURN(const Strategy strategy, FindStrategy(name));
  PlanOptions plan_options;
  plan_options.global_batch = FLAGS_global_batch;
  DPIPE_ASSIGN_OR_RETURN(const PlanResult planned,
                         MakePlan(strategy, profile, cluster, plan_options));
  TrainingJob job = setup.job();
  OverheadClock clock(planned.plan.num_devices());
  job.clock = &clock;
  DPIPE_ASSIGN_OR_RETURN(const auto session, StartSession(job, planned.plan));
  DPIPE_RETURN_IF_ERROR(session->Run(kWarmupSteps, /*is_last=*/false, /*record=*/false).status());
  const std::vector<RuntimeOverhead> before = clock.overheads();
  DPIPE_ASSIGN_OR_RETURN(const RunResult run,
                         session->Run(FLAGS_steps, /*is_last=*/false, /*record=*/false));
  RuntimeOverhead worst;
  for (size_t r = 0; r < before.size(); ++r) {
    const RuntimeOverhead of_rank = Since(before[r], clock.overheads()[r]);
    if (of_rank.overhead_ns > worst.overhead_ns) worst = of_rank;
  }
  const double step_ns = MedianStep(run);
  const double overhead_ns = static_cast<double>(worst.overhead_ns) / FLAGS_steps;
  table->AddRow({name, absl::StrCat(worst.num_instructions / FLAGS_steps),
                 absl::StrFormat("%.1f", worst.PerInstruction() / 1e3),
                 absl::StrFormat("%.0f", overhead_ns / 1e3),
                 absl::StrFormat("%.1f", step_ns / kNanosPerMilli),
                 absl::StrFormat("%.2f %%", 100 * overhead_ns / step_ns),
                 absl::StrFormat("%.4f", run.steps.back().loss)});
  return absl::OkStatus();
}

absl::Status Main() {
  models::TrainingSetupOptions options;
  DPIPE_ASSIGN_OR_RETURN(options.model_folder, models::FindModelFolder(FLAGS_model));
  const auto say = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  DPIPE_ASSIGN_OR_RETURN(options.data.folder, models::FindDataFolder("", say, false));
  options.num_devices = FLAGS_devices;
  options.global_batch = FLAGS_global_batch;
  options.seed = 1;
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options));
  say(setup->Describe());
  DPIPE_ASSIGN_OR_RETURN(const ModelProfile profile,
                         ProfileJob(setup->job(), CandidateLocalBatches(FLAGS_global_batch)));
  DPIPE_ASSIGN_OR_RETURN(const ClusterSpec cluster, MeasureCluster(setup->workers()));
  report::Table table({"strategy", "instructions a step", "us each", "us a step", "step ms",
                       "part of the step", "last loss"});
  for (const std::string& name : SplitStrategies(FLAGS_strategies)) {
    DPIPE_RETURN_IF_ERROR(Measure(*setup, name, profile, cluster, &table));
  }
  std::printf("\nProcessor time outside computations, of the rank where it is most; %s:\n\n%s",
              report::DescribeMachine(report::CollectMachineInfo()).c_str(),
              table.ToMarkdown().c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  gflags::SetUsageMessage("Measures what the runtime costs beside what it computes.");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const absl::Status status = dpipe::bench::Main();
  if (status.ok()) return 0;
  std::fprintf(stderr, "runtime_overhead: %s\n", std::string(status.message()).c_str());
  return 1;
}
