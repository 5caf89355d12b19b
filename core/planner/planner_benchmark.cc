// Times the parts of planning and how they scale: partition, filling and simulation. The whole
// search of strategies is bench/search_benchmark. Every answer is checked.
#include <cstdint>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/base/check.h"
#include "core/cost/cost_model.h"
#include "core/planner/costs/stage_costs.h"
#include "core/planner/fill/fill.h"
#include "core/planner/partition/methods/balanced.h"
#include "core/planner/pipeline/shape.h"
#include "core/planner/testing/large_model.h"
#include "core/schedule/generators.h"
#include "core/schedule/lowering/lower.h"
#include "core/sim/lower_bound.h"
#include "core/sim/simulator.h"

namespace dpipe {
namespace {

// Arguments: layers, stages.
void BM_Partition(benchmark::State& state) {
  const int layers = static_cast<int>(state.range(0)), stages = static_cast<int>(state.range(1));
  const CostModel cost = *CostModel::Create(LargeModel(layers), LargeCluster(8, 8));
  const PipelineShape shape{"1f1b", 64, stages, stages, 2 * stages, 1024};
  const Schedule schedule = *MakeSchedule("1f1b", {shape.num_stages, shape.num_micro_batches});
  const ModelStageCosts costs(cost, shape, schedule, 0);
  for (auto _ : state) {
    const auto partition =
        PartitionBalanced(StraightProblem(costs, stages, shape.num_micro_batches, 1));
    DPIPE_CHECK(partition.ok());
    DPIPE_CHECK_EQ(partition->stages.back().end, layers);
    state.counters["bottleneck_us"] = static_cast<double>(partition->bottleneck_ns) / 1e3;
  }
}
BENCHMARK(BM_Partition)->ArgsProduct({{100, 400}, {4, 16, 64}})->Unit(benchmark::kMillisecond);

// 1F1B over all devices, one sample per micro-batch.
struct Straight {
  Straight(int devices, int micro_batches, FrozenPolicy frozen)
      : cost(*CostModel::Create(LargeModel(), LargeCluster(devices / 8, 8))) {
    std::vector<StraightStage> stages;
    for (int s = 0; s < devices; ++s) {
      stages.push_back({{100 * s / devices, 100 * (s + 1) / devices}, 1});
    }
    LowerOptions options;
    options.frozen = frozen;
    plan = *LowerPlan(StraightLayout(devices, micro_batches, 8, stages),
                      *MakeSchedule("1f1b", {devices, micro_batches}), options, cost);
  }

  const CostModel cost;
  Plan plan;
};

// Argument: devices; twice as many micro-batches.
void BM_Fill(benchmark::State& state) {
  const int devices = static_cast<int>(state.range(0));
  const Straight pipeline(devices, 2 * devices, FrozenPolicy::kFill);
  const Simulation simulation = *SimulateSteadyState(pipeline.plan, pipeline.cost);
  for (auto _ : state) {
    const auto items = PlaceFrozenWork(pipeline.plan, simulation.events, pipeline.cost, {});
    DPIPE_CHECK(items.ok() && !items->empty());
    state.counters["items"] = static_cast<double>(items->size());
  }
}
BENCHMARK(BM_Fill)->Arg(8)->Arg(32)->Arg(64)->Unit(benchmark::kMillisecond);

// Arguments: devices, micro-batches.
void BM_Simulate(benchmark::State& state) {
  const int devices = static_cast<int>(state.range(0));
  const Straight pipeline(devices, static_cast<int>(state.range(1)), FrozenPolicy::kFirst);
  int64_t instructions = 0;
  for (const auto& device : pipeline.plan.devices()) {
    instructions += device.instructions_size();
  }
  const Nanos bound = StepLowerBound(pipeline.plan, pipeline.cost).bound_ns;
  SimulateOptions options;
  options.num_steps = 3;
  options.prologue_and_epilogue = false;
  options.critical_path = false;
  for (auto _ : state) {
    const auto simulation = Simulate(pipeline.plan, pipeline.cost, options);
    DPIPE_CHECK(simulation.ok());
    DPIPE_CHECK_GE(simulation->stats.step_ns, bound);
  }
  state.SetItemsProcessed(state.iterations() * instructions * options.num_steps);
  state.counters["instructions"] = static_cast<double>(instructions);
}
BENCHMARK(BM_Simulate)->ArgsProduct({{8, 64}, {64, 256}})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dpipe

BENCHMARK_MAIN();
