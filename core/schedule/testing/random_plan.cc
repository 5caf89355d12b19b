#include "core/schedule/testing/random_plan.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/schedule/generators.h"
#include "core/schedule/testing/random_schedule.h"

namespace dpipe {
namespace {

// Returns a random integer in [low, high].
int Between(RandomStream& stream, int low, int high) {
  return low + static_cast<int>(stream.NextBelow(high - low + 1));
}

// Returns the number of stages in one lap of a chain.
int StagesOfLap(const ScheduleChain& chain) {
  const int count = static_cast<int>(chain.devices.size());
  return chain.num_forward_only > 0 ? count / 2 : count;
}

// Cuts the backbones' layers at random into the stages of each chain's lap, with the same cuts in
// all chains of a backbone.
std::vector<LayerRange> RandomLayers(RandomStream& stream, const Schedule& schedule,
                                     const std::vector<int>& num_layers) {
  std::vector<std::vector<LayerRange>> of_backbone(num_layers.size());
  std::vector<LayerRange> layers;
  for (const ScheduleChain& chain : schedule.chains()) {
    std::vector<LayerRange>& lap = of_backbone[chain.backbone];
    const int count = StagesOfLap(chain);
    if (lap.empty()) {
      std::vector<int> cuts;
      for (int l = 1; l < num_layers[chain.backbone]; ++l) cuts.push_back(l);
      while (static_cast<int>(cuts.size()) > count - 1) {
        cuts.erase(cuts.begin() + stream.NextBelow(static_cast<uint32_t>(cuts.size())));
      }
      cuts.push_back(num_layers[chain.backbone]);
      int begin = 0;
      for (int cut : cuts) lap.push_back({std::exchange(begin, cut), cut});
    }
    for (size_t k = 0; k < chain.devices.size(); ++k) layers.push_back(lap[k % count]);
  }
  return layers;
}

// Returns micro-batch sizes that every replica count divides and that give every backbone the same
// number of samples.
std::vector<int> RandomSizes(RandomStream& stream, const Schedule& schedule, int common,
                             int num_backbones) {
  std::vector<int> sizes;
  int samples = 1;  // per group
  for (int b = 0; b < num_backbones; ++b) samples *= schedule.num_micro_batches(b);
  // Divide by the common factors of the numbers of micro-batches, which would make batches large.
  for (int b = 1; b < num_backbones; ++b) {
    samples /= std::gcd(schedule.num_micro_batches(b), schedule.num_micro_batches(b - 1));
  }
  samples *= common * Between(stream, 1, 2);
  for (int b = 0; b < num_backbones; ++b) {
    sizes.push_back(samples / schedule.num_micro_batches(b));
  }
  return sizes;
}

PipelineLayout RandomLayout(RandomStream& stream, const RandomPlanOptions& options,
                            const Schedule& schedule, const std::vector<int>& num_layers) {
  LayoutOptions layout;
  layout.layers = RandomLayers(stream, schedule, num_layers);
  int num_devices = 0;
  int common = 1;  // every device's replicas divide it
  for (int d = 0; d < schedule.num_devices(); ++d) {
    layout.replicas.push_back(Between(stream, 1, options.max_replicas));
    num_devices += layout.replicas.back();
    common = std::lcm(common, layout.replicas.back());
  }
  layout.num_devices = num_devices * Between(stream, 1, options.max_groups);
  layout.micro_batch_sizes = RandomSizes(stream, schedule, common * options.profile.frozen_quantum,
                                         static_cast<int>(num_layers.size()));
  const bool recompute = options.recompute && stream.NextBelow(3) == 0;
  for (int s = 0; s < schedule.num_stages(); ++s) {
    layout.recompute.push_back(recompute && !schedule.IsForwardOnly(s) && stream.NextBelow(2) == 0);
    std::vector<int>& cuts = layout.recompute_cuts.emplace_back();
    const LayerRange layers = layout.layers[s];
    RandomStream of_cuts(layers.begin, layers.end, s, RandomPurpose::kTest);
    for (int l = layers.begin + 1; layout.recompute[s] && l < layers.end; ++l) {
      if (of_cuts.NextBelow(3) == 0) cuts.push_back(l);
    }
  }
  auto result = MakeLayout(schedule, layout);
  DPIPE_CHECK(result.ok()) << result.status().message();
  return *std::move(result);
}

// Cuts one frozen component's layers over `samples` into instructions, in order.
void AddChain(RandomStream& stream, const CostModel& cost, int component, SampleRange samples,
              int step_offset, std::vector<FillItem>* items) {
  const int quantum = cost.frozen_quantum();
  items->push_back({0, 0, true, component, {}, samples, step_offset});
  for (int begin = 0; begin < cost.num_layers(component);) {
    const int end = Between(stream, begin + 1, cost.num_layers(component));
    const int quanta = samples.size() / quantum;
    if (quanta > 1 && stream.NextBelow(2) == 0) {  // a partial batch, then the rest
      const int middle = samples.begin + quantum * Between(stream, 1, quanta - 1);
      items->push_back(
          {0, 0, false, component, {begin, end}, {samples.begin, middle}, step_offset});
      items->push_back({0, 0, false, component, {begin, end}, {middle, samples.end}, step_offset});
    } else {
      items->push_back({0, 0, false, component, {begin, end}, samples, step_offset});
    }
    begin = end;
  }
}

}  // namespace

std::vector<FillItem> RandomFill(RandomStream& stream, const PipelineLayout& layout,
                                 const Plan& unfilled, const CostModel& cost, int step_offset) {
  const int quantum = cost.frozen_quantum();
  std::vector<FillItem> fill;
  for (int begin = 0; begin < layout.global_batch();) {
    const int quanta = (layout.global_batch() - begin) / quantum;
    const SampleRange samples{begin, begin + quantum * Between(stream, 1, std::min(quanta, 4))};
    std::vector<FillItem> items;
    for (int component : cost.frozen_components()) {
      AddChain(stream, cost, component, samples, step_offset, &items);
    }
    const int rank = static_cast<int>(stream.NextBelow(layout.num_devices));
    const int last = static_cast<int>(ComputeInstructions(unfilled.devices(rank)).size()) - 1;
    int position = 0;
    for (FillItem& item : items) {
      if (step_offset == 1) position = std::min(last, position + Between(stream, 0, 3));
      item.rank = rank;
      item.position = position;
      fill.push_back(item);
    }
    begin = samples.end;
  }
  return fill;
}

namespace {

// Returns the same order with each backward pass split in two.
Schedule WithSplitGradients(const Schedule& schedule) {
  std::vector<std::vector<Slot>> slots(schedule.num_devices());
  for (int d = 0; d < schedule.num_devices(); ++d) {
    for (const Slot& slot : schedule.slots(d)) {
      if (slot.pass != Pass::kBackward) {
        slots[d].push_back(slot);
      } else {
        slots[d].push_back({Pass::kInputGrad, slot.micro_batch, slot.stage});
        slots[d].push_back({Pass::kWeightGrad, slot.micro_batch, slot.stage});
      }
    }
  }
  auto split = Schedule::Create("split", schedule.chains(), std::move(slots));
  DPIPE_CHECK(split.ok()) << split.status().message();
  return *std::move(split);
}

// True if backbones with these numbers of layers can be cut into the schedule's stages.
bool Suits(const Schedule& schedule, const std::vector<int>& num_layers) {
  std::vector<bool> used(num_layers.size(), false);
  for (const ScheduleChain& chain : schedule.chains()) {
    if (chain.backbone >= static_cast<int>(num_layers.size())) return false;
    if (StagesOfLap(chain) > num_layers[chain.backbone]) return false;
    used[chain.backbone] = true;
  }
  return std::count(used.begin(), used.end(), false) == 0;
}

Schedule ChooseSchedule(RandomStream& stream, const RandomPlanOptions& options,
                        const std::vector<int>& num_layers) {
  const std::vector<std::string> names =
      options.several_stages ? ScheduleNames() : std::vector<std::string>{"gpipe", "1f1b"};
  if (stream.NextBelow(2) == 0) {
    ScheduleRequest request;
    request.num_devices = Between(stream, 1, options.max_devices);
    request.num_micro_batches = Between(stream, 1, options.max_micro_batches);
    const std::string& name = names[stream.NextBelow(static_cast<uint32_t>(names.size()))];
    auto schedule = MakeSchedule(name, request);
    if (schedule.ok() && Suits(*schedule, num_layers)) {
      const bool split = options.split_gradients && stream.NextBelow(3) == 0;
      return split ? WithSplitGradients(*schedule) : *std::move(schedule);
    }
  }
  RandomScheduleOptions random;
  random.max_devices = options.max_devices;
  random.max_stages_per_device = options.max_stages_per_device;
  random.max_micro_batches = options.max_micro_batches;
  random.num_layers = num_layers;
  random.split_gradients = options.split_gradients && stream.NextBelow(2) == 0;
  random.several_stages =
      options.several_stages && (num_layers.size() > 1 || stream.NextBelow(3) > 0);
  return RandomSchedule(stream, random);
}

}  // namespace

RandomInstance MakeRandomInstance(RandomStream& stream, const RandomPlanOptions& options) {
  RandomProfileOptions sizes = options.profile;
  if (options.several_stages && stream.NextBelow(4) == 0) sizes.num_backbones = 2;
  ModelProfile profile = RandomProfile(stream, sizes);
  std::vector<int> num_layers;  // by backbone
  for (const ComponentProfile& component : profile.components()) {
    if (component.is_backbone()) num_layers.push_back(component.layers_size());
  }
  Schedule schedule = ChooseSchedule(stream, options, num_layers);
  PipelineLayout layout = RandomLayout(stream, options, schedule, num_layers);
  ClusterSpec cluster = RandomCluster(stream, layout.num_devices);
  if (options.heterogeneous_devices && stream.NextBelow(4) == 0) AddRandomClasses(stream, &cluster);
  if (options.heterogeneous_devices && stream.NextBelow(2) == 0) {
    AddRandomSharedLinks(stream, &cluster);
  }
  const auto cost = CostModel::Create(profile, cluster);
  DPIPE_CHECK(cost.ok()) << cost.status().message();
  LowerOptions lower;
  lower.strategy = "random";
  lower.frozen = static_cast<FrozenPolicy>(stream.NextBelow(3));
  lower.sync = stream.NextBelow(2) == 0 ? SyncPolicy::kBucketed : SyncPolicy::kEnd;
  lower.bucket_bytes = Between(stream, 1, 2000);
  lower.global_norm = stream.NextBelow(3) > 0;
  lower.recv_lookahead = Between(stream, 0, 2);
  lower.max_frozen_batch = Between(stream, 0, 4);
  auto plan = LowerPlan(layout, schedule, lower, *cost);
  DPIPE_CHECK(plan.ok()) << plan.status().message();
  if (lower.frozen == FrozenPolicy::kFill) {
    lower.flush_exchange = stream.NextBelow(3) == 0;
    lower.fill = RandomFill(stream, layout, *plan, *cost, stream.NextBelow(4) > 0 ? 1 : 0);
    plan = LowerPlan(layout, schedule, lower, *cost);
    DPIPE_CHECK(plan.ok()) << plan.status().message();
  }
  return {std::move(profile),  std::move(cluster), std::move(layout),
          std::move(schedule), std::move(lower),   *std::move(plan)};
}

}  // namespace dpipe
