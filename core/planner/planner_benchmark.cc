// How long planning takes, and how that grows: partition, filling, simulation and the whole search.
// The search over 64 devices of a 100-layer profile is to take under a second on one core, over
// 1,024 under ten. Every answer is checked.
#include <cstdint>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/cost/cost_model.h"
#include "core/planner/fill/fill.h"
#include "core/planner/partition/balanced.h"
#include "core/planner/search.h"
#include "core/planner/shape.h"
#include "core/planner/stage_costs.h"
#include "core/schedule/generators.h"
#include "core/schedule/lower.h"
#include "core/schedule/verify.h"
#include "core/sim/lower_bound.h"
#include "core/sim/simulator.h"

namespace dpipe {
namespace {

void AddLayer(RandomStream& random, LayerKind kind, Nanos mean_ns, ComponentProfile* component) {
  LayerProfile* layer = component->add_layers();
  layer->set_name("layer" + std::to_string(component->layers_size()));
  layer->set_kind(kind);
  layer->set_parameter_bytes(8 << 20);
  if (kind == TRAINABLE) layer->set_trainable_parameter_bytes(8 << 20);
  const Nanos ns = mean_ns / 2 + random.NextBelow(static_cast<uint32_t>(mean_ns));
  for (int batch : {1, 2, 4, 8, 16, 32}) {
    LayerTiming* timing = layer->add_timings();
    timing->set_local_batch(batch);
    timing->set_forward_ns(ns * (batch + 2) / 3);  // a launch costs as much as two samples
    if (kind != TRAINABLE) continue;
    timing->set_input_grad_ns(ns * (batch + 2) / 3);
    timing->set_weight_grad_ns(ns * (batch + 2) / 3);
  }
  layer->set_optimizer_step_ns(kind == TRAINABLE ? mean_ns / 4 : 0);
}

void Connect(int64_t bytes_per_sample, bool gradient, ComponentProfile* component) {
  for (int l = 0; l + 1 < component->layers_size(); ++l) {
    ValueProfile* value = component->add_values();
    value->set_name("x" + std::to_string(l));
    value->set_bytes_per_sample(bytes_per_sample);
    value->set_producer_layer(l);
    value->add_consumer_layers(l + 1);
    value->set_has_gradient(gradient);
  }
}

void AddEncoder(RandomStream& random, const std::string& name, int num_layers, Nanos mean_ns,
                ModelProfile* model) {
  ComponentProfile* encoder = model->add_components();
  encoder->set_name(name);
  encoder->set_load_ns_per_sample(20000);
  for (int l = 0; l < num_layers; ++l) AddLayer(random, FROZEN, mean_ns, encoder);
  Connect(1 << 20, false, encoder);
  ValueProfile* out = encoder->add_values();
  out->set_name("out");
  out->set_bytes_per_sample(64 << 10);
  out->set_producer_layer(num_layers - 1);
  out->set_is_output(true);
  ValueProfile* in = model->mutable_components(0)->add_values();
  in->set_name("from_" + name);
  in->set_bytes_per_sample(64 << 10);
  in->set_producer_layer(-1);
  in->add_consumer_layers(0);
  in->set_source_component(name);
  in->set_source_value("out");
}

// Trainable layers, and two encoders of 30 and 24 layers, which are about 0.4 of the training work
// of 100 layers.
ModelProfile LargeModel(int num_layers = 100) {
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  ModelProfile model;
  model.set_model("large");
  ComponentProfile* backbone = model.add_components();
  backbone->set_name("backbone");
  backbone->set_is_backbone(true);
  for (int l = 0; l < num_layers; ++l) AddLayer(random, TRAINABLE, 30000000 / num_layers, backbone);
  Connect(2 << 20, true, backbone);
  AddEncoder(random, "vae", 30, 900000, &model);
  AddEncoder(random, "text", 24, 300000, &model);
  return model;
}

ClusterSpec Cluster(int num_nodes, int devices_per_node) {
  ClusterSpec cluster;
  cluster.set_num_nodes(num_nodes);
  cluster.set_devices_per_node(devices_per_node);
  cluster.mutable_intra_node()->set_latency_ns(5000);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(200e9);
  cluster.mutable_inter_node()->set_latency_ns(15000);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(25e9);
  return cluster;
}

// Arguments: layers, stages.
void BM_Partition(benchmark::State& state) {
  const int layers = static_cast<int>(state.range(0)), stages = static_cast<int>(state.range(1));
  const CostModel cost = *CostModel::Create(LargeModel(layers), Cluster(8, 8));
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

// 1F1B over all devices, one sample a micro-batch.
struct Straight {
  Straight(int devices, int micro_batches, FrozenPolicy frozen)
      : cost(*CostModel::Create(LargeModel(), Cluster(devices / 8, 8))) {
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

// What the strategies of these names in baselines/ are.
Strategy StrategyOf(const std::string& name) {
  Strategy strategy;
  strategy.set_name(name);
  strategy.set_partitioner("balanced");
  strategy.set_schedule(name == "diffusionpipe"
                            ? "1f1b|cascaded"
                            : "1f1b|eager-1f1b|interleaved|wave|zb-h1|zb-h2|zb-"
                              "auto|zb-v|chimera|bitpipe|cascaded|cascaded-zb|cascaded-v");
  strategy.set_frozen("fill");
  strategy.set_sync("bucketed");
  strategy.set_partial_batch(true);
  strategy.set_cross_iteration(true);
  strategy.set_tune(name != "diffusionpipe");
  strategy.set_recompute(name == "diffusionpipe" ? "none" : "auto");
  return strategy;
}

// Arguments: devices, layers. 16 samples a device.
void BM_Search(benchmark::State& state, const char* name) {
  const int devices = static_cast<int>(state.range(0));
  const ModelProfile model = LargeModel(static_cast<int>(state.range(1)));
  const ClusterSpec cluster = Cluster(devices / 8, 8);
  const Strategy strategy = StrategyOf(name);
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
  for (int layers : {50, 200, 400}) benchmark->Args({64, layers});
  benchmark->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(BM_Search, diffusionpipe, "diffusionpipe")->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Search, opendiffusionpipe, "opendiffusionpipe")->Apply(Sizes);

}  // namespace
}  // namespace dpipe

BENCHMARK_MAIN();
