// Measures lowering, verifying and simulating a plan of 64 devices and 64 micro-batches.
#include "benchmark/benchmark.h"
#include "core/base/check.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/verification/verify.h"
#include "core/sim/simulator.h"

namespace dpipe {
namespace {

struct Setting {
  CostModel cost;
  PipelineLayout layout;
  Schedule schedule;
};

Setting MakeSetting(int num_devices, int num_micro_batches) {
  UniformProfileOptions options;
  options.num_layers = 2 * num_devices;
  options.frozen_layers = 10;
  options.value_bytes = 1000;
  auto cost = CostModel::Create(UniformProfile(options), IdealCluster(num_devices));
  DPIPE_CHECK(cost.ok());
  std::vector<StraightStage> stages;
  for (int s = 0; s < num_devices; ++s) stages.push_back({{2 * s, 2 * s + 2}, 1});
  PipelineLayout layout = StraightLayout(num_devices, num_micro_batches, 1, stages);
  auto schedule = MakeSchedule("1f1b", {num_devices, num_micro_batches});
  DPIPE_CHECK(schedule.ok());
  return {*std::move(cost), std::move(layout), *std::move(schedule)};
}

Plan Lower(const Setting& setting) {
  auto plan = LowerPlan(setting.layout, setting.schedule, {}, setting.cost);
  DPIPE_CHECK(plan.ok());
  return *std::move(plan);
}

void BM_LowerPlan(benchmark::State& state) {
  const Setting setting = MakeSetting(state.range(0), state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(Lower(setting));
}
BENCHMARK(BM_LowerPlan)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);

void BM_SimulateSteadyState(benchmark::State& state) {
  const Setting setting = MakeSetting(state.range(0), state.range(0));
  const Plan plan = Lower(setting);
  int64_t instructions = 0;
  for (const DeviceProgram& program : plan.devices()) {
    instructions += program.instructions_size();
  }
  for (auto _ : state) {
    const auto simulation = SimulateSteadyState(plan, setting.cost);
    DPIPE_CHECK(simulation.ok());
    // Forward and backward of 2 layers take 2000 ns each; (m + p - 1) of them are a lower bound for
    // the pipeline part.
    DPIPE_CHECK_GE(simulation->stats.step_ns, (2 * state.range(0) - 1) * 4000);
  }
  // Counts the plan once, although two steps are simulated, from protobuf message to statistics.
  state.counters["plan_instructions"] = static_cast<double>(instructions);
  state.counters["plan_instructions/s"] = benchmark::Counter(
      static_cast<double>(instructions * state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_SimulateSteadyState)->Arg(8)->Arg(64)->Arg(256)->Unit(benchmark::kMillisecond);

void BM_VerifyPlan(benchmark::State& state) {
  const Setting setting = MakeSetting(state.range(0), state.range(0));
  const Plan plan = Lower(setting);
  for (auto _ : state) DPIPE_CHECK(VerifyPlan(plan, setting.cost).ok());
}
BENCHMARK(BM_VerifyPlan)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dpipe
