// The runtime's overhead: a pipeline of CPU ranks whose layers compute one number per sample, in
// real time, with in-process messages.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/base/check.h"
#include "core/comm/in_process.h"
#include "core/cost/testing/fake_profile.h"
#include "core/emulation/emulated_model.h"
#include "core/emulation/reference_losses.h"
#include "core/runtime/overhead_clock.h"
#include "core/runtime/session/local_session.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/tensor/device_worker.h"

namespace dpipe {
namespace {

constexpr int kMicroBatches = 16;
constexpr int kLayersPerStage = 2;
constexpr int kSteps = 20;  // per run

Plan MakePipelinePlan(const ModelProfile& profile, const std::string& schedule_name,
                      int num_ranks) {
  const auto cost = CostModel::Create(profile, IdealCluster(num_ranks));
  DPIPE_CHECK(cost.ok()) << cost.status();
  std::vector<StraightStage> stages;
  for (int s = 0; s < num_ranks; ++s) {
    stages.push_back({{kLayersPerStage * s, kLayersPerStage * (s + 1)}, 1});
  }
  const PipelineLayout layout = StraightLayout(num_ranks, kMicroBatches, 1, stages);
  const auto schedule = MakeSchedule(schedule_name, {num_ranks, kMicroBatches});
  DPIPE_CHECK(schedule.ok()) << schedule.status();
  auto plan = LowerPlan(layout, *schedule, {}, *cost);
  DPIPE_CHECK(plan.ok()) << plan.status();
  return *std::move(plan);
}

// The argument is the number of ranks.
void BM_Instruction(benchmark::State& state, const std::string& schedule) {
  const int num_ranks = static_cast<int>(state.range(0));
  UniformProfileOptions profile_options;
  profile_options.num_layers = kLayersPerStage * num_ranks;
  const ModelProfile profile = UniformProfile(profile_options);
  const auto model = MakeEmulatedModel(profile);
  DPIPE_CHECK(model.ok()) << model.status();
  EmulatedInputs inputs(&*model, /*seed=*/1);
  const auto devices = Device::PartitionCpu(num_ranks);
  if (!devices.ok()) {  // ranks that share a core wait for it
    state.SkipWithError(std::string(devices.status().message()).c_str());
    return;
  }
  const auto workers = StartWorkers(*devices);
  OverheadClock clock(num_ranks);
  InProcessOptions in_process;
  in_process.observer = &clock;
  LocalSessionOptions options;
  options.communicators = CreateInProcessCommunicators(num_ranks, in_process);
  options.plan = MakePipelinePlan(profile, schedule, num_ranks);
  const int global_batch = options.plan.global_batch();
  options.model = &*model;
  for (const auto& worker : workers) options.workers.push_back(worker.get());
  options.inputs = &inputs;
  options.frozen_parameters = inputs.frozen_parameters();
  const nn::ParameterSourcePtr initial = nn::SourceOf(inputs.backbone_parameters());
  options.initial_parameters = initial.get();
  options.optimizer = EmulatedOptimizer();
  options.clock = &clock;
  const auto session = LocalSession::Create(std::move(options));
  DPIPE_CHECK(session.ok()) << session.status();
  const auto expected = ReferenceLosses(*model, &inputs, global_batch, false, kSteps);
  DPIPE_CHECK(expected.ok()) << expected.status();
  bool is_first = true;
  for (auto _ : state) {
    const auto result = (*session)->Run(kSteps, /*is_last=*/false, /*record=*/false);
    DPIPE_CHECK(result.ok()) << result.status();
    for (int i = 0; is_first && i < kSteps; ++i) {
      DPIPE_CHECK(std::abs(result->steps[i].loss - (*expected)[i]) < 1e-5) << "step " << i;
    }
    is_first = false;
  }
  int64_t instructions = 0;
  double overhead_ns = 0, worst_ns = 0;
  for (const RuntimeOverhead& of_rank : clock.overheads()) {
    instructions += of_rank.num_instructions;
    overhead_ns += static_cast<double>(of_rank.overhead_ns);
    worst_ns = std::max(worst_ns, of_rank.PerInstruction());
  }
  state.counters["us/instruction"] = overhead_ns / instructions / 1e3;
  state.counters["us/instruction_worst_rank"] = worst_ns / 1e3;
  state.counters["instructions/s"] =
      benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(BM_Instruction, 1f1b, "1f1b")
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Instruction, zb_h1, "zb-h1")
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dpipe
