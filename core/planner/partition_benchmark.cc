// Times partitioning, by layers and stages: the price of every candidate of a search. Stage costs
// are rebuilt each time, as in the search; the backbone's tables are not.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/cost/cost_model.h"
#include "core/planner/costs/stage_costs.h"
#include "core/planner/partition/partitioner.h"
#include "core/planner/partition/solvers/pair.h"
#include "core/schedule/schedule.h"

namespace dpipe {
namespace {

// Returns a U-Net with random times and a skip from every third layer of the first half to its
// mirror image.
ModelProfile Model(int num_layers) {
  RandomStream random(1, 0, 0, RandomPurpose::kTest);
  ModelProfile model;
  model.set_model("unet");
  ComponentProfile* backbone = model.add_components();
  backbone->set_name("backbone");
  backbone->set_is_backbone(true);
  for (int l = 0; l < num_layers; ++l) {
    LayerProfile* layer = backbone->add_layers();
    layer->set_name("layer" + std::to_string(l));
    layer->set_kind(TRAINABLE);
    layer->set_parameter_bytes(8 << 20);
    layer->set_trainable_parameter_bytes(8 << 20);
    layer->set_saved_bytes_per_sample(8 << 20);
    const Nanos ns = 150000 + random.NextBelow(300000);
    for (int batch : {1, 32}) {
      LayerTiming* timing = layer->add_timings();
      timing->set_local_batch(batch);
      timing->set_forward_ns(ns * (batch + 2) / 3);
      timing->set_input_grad_ns(ns * (batch + 2) / 3);
      timing->set_weight_grad_ns(ns * (batch + 2) / 3);
    }
    if (l + 1 == num_layers) break;
    ValueProfile* value = backbone->add_values();
    value->set_name("x" + std::to_string(l));
    value->set_bytes_per_sample(2 << 20);
    value->set_producer_layer(l);
    value->add_consumer_layers(l + 1);
    if (l % 3 == 0 && l + 2 < num_layers - l) value->add_consumer_layers(num_layers - 1 - l);
    value->set_has_gradient(true);
  }
  return model;
}

ClusterSpec Cluster(int num_devices) {
  ClusterSpec cluster;
  cluster.set_num_nodes(std::max(1, num_devices / 8));
  cluster.set_devices_per_node(std::min(8, num_devices));
  cluster.set_memory_bytes_per_device(int64_t{80} << 30);
  cluster.mutable_intra_node()->set_latency_ns(5000);
  cluster.mutable_intra_node()->set_bandwidth_bytes_per_s(200e9);
  cluster.mutable_inter_node()->set_latency_ns(15000);
  cluster.mutable_inter_node()->set_bandwidth_bytes_per_s(25e9);
  return cluster;
}

// Returns a schedule with all forward passes of a device's stages, deepest last, followed by all
// backward passes, micro-batch by micro-batch per stage: any order will do.
Schedule AllForwardAllBackward(std::vector<int> devices, int num_devices, int num_micro_batches) {
  std::vector<std::vector<Slot>> slots(num_devices);
  const int num_stages = static_cast<int>(devices.size());
  for (int s = 0; s < num_stages; ++s) {
    for (int m = 0; m < num_micro_batches; ++m) {
      slots[devices[s]].push_back({Pass::kForward, m, s});
    }
  }
  for (int s = num_stages - 1; s >= 0; --s) {
    for (int m = 0; m < num_micro_batches; ++m) {
      slots[devices[s]].push_back({Pass::kBackward, m, s});
    }
  }
  ScheduleChain chain;
  chain.devices = std::move(devices);
  chain.num_micro_batches = num_micro_batches;
  return *Schedule::Create("forward-backward", {chain}, std::move(slots));
}

enum class Placement { kStraight, kV, kInterleaved };

Schedule MakePlacement(Placement placement, int num_devices) {
  const int chunks = placement == Placement::kStraight ? 1 : 2;
  std::vector<int> devices;
  for (int s = 0; s < chunks * num_devices; ++s) {
    devices.push_back(placement == Placement::kV ? std::min(s, 2 * num_devices - 1 - s)
                                                 : s % num_devices);
  }
  return AllForwardAllBackward(std::move(devices), num_devices, 16);
}

// range(0) layers on range(1) devices of one rank; 64 ranks in all.
void BM_Partition(benchmark::State& state, const std::string& name, Placement placement) {
  const int num_devices = static_cast<int>(state.range(1));
  const CostModel cost = *CostModel::Create(Model(state.range(0)), Cluster(64));
  const auto tables = std::make_shared<const BackboneTables>(cost, cost.backbone());
  const Schedule schedule = MakePlacement(placement, num_devices);
  const Partitioner partitioner = *FindPartitioner(name);
  StageCostsOptions options;
  options.num_groups = 64 / num_devices;
  options.devices_per_pipeline = num_devices;
  options.micro_batch_size = 4;
  Nanos bottleneck = 0;
  for (auto _ : state) {
    const ModelStageCosts costs(cost, tables, schedule, options);
    const auto partition =
        partitioner(MakePartitionProblem(costs, schedule, 0, std::vector<int>(num_devices, 1)));
    DPIPE_CHECK(partition.ok()) << partition.status();
    DPIPE_CHECK_EQ(partition->stages.back().end, state.range(0));
    bottleneck = partition->bottleneck_ns;
  }
  const Nanos all = cost.Times(0, 4).Total({0, static_cast<int>(state.range(0))});
  DPIPE_CHECK_GE(bottleneck * num_devices, all);
  state.counters["over_even"] = static_cast<double>(bottleneck) * num_devices / all;
}

void LayersAndDevices(benchmark::internal::Benchmark* benchmark) {
  benchmark->Unit(benchmark::kMillisecond);
  for (int layers : {50, 100, 200, 400}) benchmark->Args({layers, 8});
  for (int devices : {2, 4, 16, 32}) benchmark->Args({100, devices});
}
void FewLayersAndDevices(benchmark::internal::Benchmark* benchmark) {
  benchmark->Unit(benchmark::kMillisecond);
  for (int layers : {50, 100, 150}) benchmark->Args({layers, 8});
  for (int devices : {2, 4, 16}) benchmark->Args({100, devices});
}

BENCHMARK_CAPTURE(BM_Partition, balanced_straight, "balanced", Placement::kStraight)
    ->Apply(LayersAndDevices);
BENCHMARK_CAPTURE(BM_Partition, balanced_v, "balanced", Placement::kV)->Apply(LayersAndDevices);
BENCHMARK_CAPTURE(BM_Partition, balanced_interleaved, "balanced", Placement::kInterleaved)
    ->Apply(LayersAndDevices);
BENCHMARK_CAPTURE(BM_Partition, dawnpiper, "dawnpiper", Placement::kStraight)
    ->Apply(FewLayersAndDevices);
BENCHMARK_CAPTURE(BM_Partition, skip_aware, "skip_aware", Placement::kV)
    ->Apply(FewLayersAndDevices);

// Chooses replicas for 100 layers in range(0) stages over range(1) ranks.
void BM_Replicas(benchmark::State& state, const std::string& name) {
  const int num_stages = static_cast<int>(state.range(0));
  const int num_ranks = static_cast<int>(state.range(1));
  const CostModel cost = *CostModel::Create(Model(100), Cluster(num_ranks));
  const auto tables = std::make_shared<const BackboneTables>(cost, cost.backbone());
  const Schedule schedule = MakePlacement(Placement::kStraight, num_stages);
  StageCostsOptions options;
  options.devices_per_pipeline = num_ranks;
  options.micro_batch_size = 16;
  const Partitioner partitioner = *FindPartitioner(name);
  for (auto _ : state) {
    const ModelStageCosts costs(cost, tables, schedule, options);
    PartitionProblem problem = MakePartitionProblem(
        costs, schedule, 0, std::vector<int>(num_stages, num_ranks / num_stages));
    problem.choose_replicas = true;
    const auto partition = partitioner(problem);
    DPIPE_CHECK(partition.ok()) << partition.status();
    int ranks = 0;
    for (const DeviceSeat& seat : partition->seats) ranks += seat.replicas;
    DPIPE_CHECK_EQ(ranks, num_ranks);
  }
}

BENCHMARK_CAPTURE(BM_Replicas, pipedream, "pipedream")
    ->Args({2, 8})
    ->Args({4, 8})
    ->Args({4, 32})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Replicas, spp, "spp")->Args({4, 8})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Replicas, dapple, "dapple")
    ->Args({2, 8})
    ->Args({4, 8})
    ->Unit(benchmark::kMillisecond);

// Two backbones of range(0) layers each on range(1) devices.
void BM_Pair(benchmark::State& state) {
  const int num_layers = static_cast<int>(state.range(0));
  const int num_devices = static_cast<int>(state.range(1));
  const CostModel cost = *CostModel::Create(Model(num_layers), Cluster(num_devices));
  const auto tables = std::make_shared<const BackboneTables>(cost, cost.backbone());
  std::vector<int> devices;
  for (int d = num_devices - 1; d >= 0; --d) devices.push_back(d);
  const Schedule down_schedule = MakePlacement(Placement::kStraight, num_devices);
  const Schedule up_schedule = AllForwardAllBackward(devices, num_devices, 16);
  StageCostsOptions options;
  options.devices_per_pipeline = num_devices;
  for (auto _ : state) {
    const ModelStageCosts down(cost, tables, down_schedule, options);
    const ModelStageCosts up(cost, tables, up_schedule, options);
    const auto partition =
        PartitionPair({&down, &up, 8, 8, std::vector<int>(num_devices, 1), false});
    DPIPE_CHECK(partition.ok()) << partition.status();
    DPIPE_CHECK_EQ(partition->up.back().end, num_layers);
  }
}
BENCHMARK(BM_Pair)->Args({50, 8})->Args({100, 4})->Args({100, 8})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dpipe

BENCHMARK_MAIN();
