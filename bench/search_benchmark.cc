// Measures the processor time of a strategy's whole search, and its growth with devices and layers.
// Every answer is verified. //tests:search_time_test has the limits.
#include <string>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "benchmark/benchmark.h"
#include "core/base/check.h"
#include "core/planner/search.h"
#include "core/planner/testing/large_model.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule_traits.h"
#include "core/schedule/verification/verify.h"

namespace dpipe {
namespace {

// Arguments: devices, layers. 16 samples per device.
void BM_Search(benchmark::State& state, const char* name, int num_backbones = 1) {
  const int devices = static_cast<int>(state.range(0));
  const ModelProfile model = LargeModel(static_cast<int>(state.range(1)), num_backbones);
  const ClusterSpec cluster = LargeCluster(devices / 8, 8);
  const Strategy strategy = *FindStrategy(name);
  PlanOptions options;
  options.global_batch = 16 * devices;
  for (auto _ : state) {
    const auto result = MakePlan(strategy, model, cluster, options);
    DPIPE_CHECK(result.ok()) << result.status();
    const Prediction& prediction = result->plan.prediction();
    DPIPE_CHECK_GE(prediction.step_ns(), prediction.lower_bound_ns());
    state.PauseTiming();
    DPIPE_CHECK(VerifyPlan(result->plan, model, cluster).ok());
    state.ResumeTiming();
    state.counters["considered"] = result->num_considered;
    state.counters["simulated"] = result->num_simulated;
    state.counters["left"] = result->num_left;
    state.counters["step_over_bound"] =
        static_cast<double>(prediction.step_ns()) / prediction.lower_bound_ns();
    state.counters["bubble"] = prediction.bubble_ratio();
    state.counters["S"] = result->candidates[0].num_stages;
    state.counters["M"] = result->plan.num_micro_batches();
    state.counters["D"] = result->plan.devices_per_pipeline();
  }
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (int devices : {8, 64, 256, 1024}) benchmark->Args({devices, 100});
  for (int layers : {50, 200, 400, 1000}) benchmark->Args({64, layers});
  benchmark->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(BM_Search, diffusionpipe, "diffusionpipe")->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Search, opendiffusionpipe, "opendiffusionpipe")->Apply(Sizes);

// Every schedule, of one or two backbones with 1,000 layers each, on 64 devices.
void RegisterSchedules() {
  for (const std::string& schedule : ScheduleNames()) {
    const int num_backbones = TraitsOf(schedule)->num_backbones;
    const std::string strategy = absl::StrCat("schedule=", schedule, ",frozen=fill");
    benchmark::RegisterBenchmark(
        absl::StrCat("BM_Search/", strategy).c_str(),
        [=](benchmark::State& state) { BM_Search(state, strategy.c_str(), num_backbones); })
        ->Args({64, 1000})
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace dpipe

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  dpipe::RegisterSchedules();
  benchmark::RunSpecifiedBenchmarks();
}
