#include "core/schedule/random_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

// In [low, high].
int Between(RandomStream& stream, int low, int high) {
  return low + static_cast<int>(stream.NextBelow(high - low + 1));
}

PipelineLayout RandomLayout(RandomStream& stream, const RandomPlanOptions& options,
                            int num_layers) {
  const int num_stages = Between(stream, 1, std::min(options.max_stages, num_layers));
  std::vector<int> cuts;
  for (int l = 1; l < num_layers; ++l) cuts.push_back(l);
  while (static_cast<int>(cuts.size()) > num_stages - 1) {
    cuts.erase(cuts.begin() + stream.NextBelow(static_cast<uint32_t>(cuts.size())));
  }
  cuts.push_back(num_layers);
  std::vector<StraightStage> stages;
  int begin = 0;
  int num_devices = 0;
  int common = 1;  // every stage's replicas divide it
  for (int cut : cuts) {
    const int replicas = Between(stream, 1, options.max_replicas);
    stages.push_back({{begin, cut}, replicas});
    num_devices += replicas;
    begin = cut;
    if (common % replicas != 0) common *= replicas;
  }
  num_devices *= Between(stream, 1, options.max_groups);
  const int num_micro_batches = Between(stream, 1, options.max_micro_batches);
  const int size = common * options.profile.frozen_quantum * Between(stream, 1, 2);
  return StraightLayout(num_devices, num_micro_batches, size, stages);
}

// Cuts one component's chain over `samples` into instructions, in order.
void AddChain(RandomStream& stream, const CostModel& cost, int component, SampleRange samples,
              int step_offset, std::vector<FillItem>* items) {
  const int quantum = cost.frozen_quantum();
  items->push_back({0, 0, true, component, {}, samples, step_offset});
  for (int begin = 0; begin < cost.num_layers(component);) {
    const int end = Between(stream, begin + 1, cost.num_layers(component));
    const int quanta = samples.size() / quantum;
    if (quanta > 1 && stream.NextBelow(2) == 0) {  // a partial batch, and then the rest
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

Schedule RandomSchedule(RandomStream& stream, int num_stages, int num_micro_batches,
                        bool split_gradients) {
  std::vector<std::vector<Slot>> stages(num_stages);
  std::vector<int> forward(num_stages, 0), gradient(num_stages, 0), weight(num_stages, 0);
  const auto left = [&] {
    return *std::min_element(weight.begin(), weight.end()) < num_micro_batches;
  };
  while (left()) {
    const int s = static_cast<int>(stream.NextBelow(num_stages));
    const int choice = static_cast<int>(stream.NextBelow(3));
    const int forward_limit = s == 0 ? num_micro_batches : forward[s - 1];
    const int gradient_limit =
        std::min(forward[s], s + 1 == num_stages ? num_micro_batches : gradient[s + 1]);
    if (choice == 0 && forward[s] < forward_limit) {
      stages[s].push_back({Pass::kForward, forward[s]++});
    } else if (choice == 1 && gradient[s] < gradient_limit) {
      const bool whole = gradient[s] == weight[s] && (!split_gradients || stream.NextBelow(2) == 0);
      stages[s].push_back({whole ? Pass::kBackward : Pass::kInputGrad, gradient[s]++});
      if (whole) ++weight[s];
    } else if (choice == 2 && weight[s] < gradient[s]) {
      stages[s].push_back({Pass::kWeightGrad, weight[s]++});
    }
  }
  auto schedule = Schedule::CreateStraight("random", num_micro_batches, std::move(stages));
  DPIPE_CHECK(schedule.ok()) << schedule.status().message();
  return *std::move(schedule);
}

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

Schedule ChooseSchedule(RandomStream& stream, const PipelineLayout& layout, bool split_gradients) {
  const int num_stages = static_cast<int>(layout.stages.size());
  const char* names[] = {"gpipe", "1f1b"};
  auto schedule =
      MakeSchedule(names[stream.NextBelow(2)], {num_stages, layout.num_micro_batches()});
  DPIPE_CHECK(schedule.ok()) << schedule.status().message();
  if (split_gradients && stream.NextBelow(3) == 0) {
    // The same order with each backward pass split in two.
    std::vector<std::vector<Slot>> stages(num_stages);
    for (int s = 0; s < num_stages; ++s) {
      for (const Slot& slot : schedule->slots(s)) {
        if (slot.pass == Pass::kForward) {
          stages[s].push_back(slot);
        } else {
          stages[s].push_back({Pass::kInputGrad, slot.micro_batch});
          stages[s].push_back({Pass::kWeightGrad, slot.micro_batch});
        }
      }
    }
    schedule = Schedule::CreateStraight("split", layout.num_micro_batches(), std::move(stages));
    DPIPE_CHECK(schedule.ok()) << schedule.status().message();
  }
  return *std::move(schedule);
}

}  // namespace

RandomInstance MakeRandomInstance(RandomStream& stream, const RandomPlanOptions& options) {
  ModelProfile profile = RandomProfile(stream, options.profile);
  const int num_layers = profile.components(profile.components_size() - 1).layers_size();
  PipelineLayout layout = RandomLayout(stream, options, num_layers);
  ClusterSpec cluster = RandomCluster(stream, layout.num_devices);
  const auto cost = CostModel::Create(profile, cluster);
  DPIPE_CHECK(cost.ok()) << cost.status().message();
  Schedule schedule = ChooseSchedule(stream, layout, options.split_gradients);
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
