// Plans of random models, chains and schedules are valid.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/builders/list_schedule.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/verification/verify.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

int Between(RandomStream& stream, int low, int high) {
  return low + static_cast<int>(stream.NextBelow(static_cast<uint32_t>(high - low + 1)));
}

// Returns one of: stages on random devices, some of them adjacent on one device; two chains of one
// backbone in opposite directions; two backbones.
std::vector<ScheduleChain> RandomChains(RandomStream& stream, int num_backbones, int max_stages) {
  const int devices = Between(stream, 1, 4);
  std::vector<ScheduleChain> chains;
  const int num_stages = Between(stream, 1, max_stages);
  for (int b = 0; b < num_backbones; ++b) {
    ScheduleChain chain;
    chain.backbone = b;
    chain.num_micro_batches = Between(stream, 1, 4);
    for (int k = 0; k < num_stages; ++k) chain.devices.push_back(Between(stream, 0, devices - 1));
    const bool twins = devices % 2 == 0 && stream.NextBelow(2) == 0;
    ScheduleChain twin = chain;
    for (int& d : twin.devices) d = devices - 1 - d;
    twin.num_micro_batches = Between(stream, 1, 4);
    if (stream.NextBelow(3) == 0) {  // self-conditioning
      for (ScheduleChain* c : {&chain, &twin}) {
        c->num_forward_only = num_stages;
        const std::vector<int> lap = c->devices;
        c->devices.insert(c->devices.end(), lap.begin(), lap.end());
      }
    }
    chains.push_back(chain);
    if (twins) chains.push_back(twin);
  }
  // Renumbers the devices, so that each has a stage.
  std::vector<int> number(devices, -1);
  int used = 0;
  for (ScheduleChain& chain : chains) {
    for (int& d : chain.devices) {
      if (number[d] < 0) number[d] = used++;
      d = number[d];
    }
  }
  return chains;
}

ModelProfile RandomModel(RandomStream& stream, int num_backbones) {
  ModelProfile profile = RandomProfile(stream);
  for (ComponentProfile& component : *profile.mutable_components()) {
    if (component.is_backbone()) component.set_self_conditioning_bytes_per_sample(5);
  }
  for (int b = 1; b < num_backbones; ++b) {
    ComponentProfile copy;
    for (const ComponentProfile& component : profile.components()) {
      if (component.is_backbone()) copy = component;
    }
    copy.set_name(absl::StrCat("backbone", b));
    *profile.add_components() = copy;
  }
  return profile;
}

void HalveTrained(ModelProfile* profile) {
  for (ComponentProfile& component : *profile->mutable_components()) {
    for (LayerProfile& layer : *component.mutable_layers()) {
      layer.set_trainable_parameter_bytes(layer.trainable_parameter_bytes() / 2);
    }
  }
}

std::vector<LayerRange> RandomCuts(RandomStream& stream, int num_layers, int num_stages) {
  std::vector<int> cuts;
  for (int l = 1; l < num_layers; ++l) cuts.push_back(l);
  while (static_cast<int>(cuts.size()) > num_stages - 1) {
    cuts.erase(cuts.begin() + stream.NextBelow(static_cast<uint32_t>(cuts.size())));
  }
  cuts.push_back(num_layers);
  std::vector<LayerRange> layers;
  for (int cut : cuts) layers.push_back({layers.empty() ? 0 : layers.back().end, cut});
  return layers;
}

// Returns micro-batch sizes that give all backbones the same number of samples: each backbone's
// size is the other's number of micro-batches.
std::vector<int> BatchSizes(const Schedule& schedule, int num_backbones, int unit) {
  if (num_backbones == 1) return {unit};
  return {unit * schedule.num_micro_batches(1), unit * schedule.num_micro_batches(0)};
}

TEST(LowerRandomTest, AllPlansAreValid) {
  int several_stages = 0, twins = 0, sharded = 0, keep_frozen = 0;
  for (int i = 0; i < 600; ++i) {
    RandomStream stream(41, i, 0, RandomPurpose::kTest);
    const int num_backbones = Between(stream, 1, 2);
    ModelProfile profile = RandomModel(stream, num_backbones);
    if (i % 2 == 1) HalveTrained(&profile);
    const int num_layers = profile.components(profile.components_size() - 1).layers_size();
    const auto chains = RandomChains(stream, num_backbones, std::min(6, num_layers));
    ListScheduleOptions list;
    list.split_backward = stream.NextBelow(2) == 0;
    list.policy = stream.NextBelow(2) == 0 ? GradientsFirst : OldestFirst;
    const auto schedule = ListSchedule("random", chains, list);
    ASSERT_TRUE(schedule.ok()) << i << ": " << schedule.status();
    LayoutOptions layout;
    std::vector<std::vector<LayerRange>> cuts;
    for (const ScheduleChain& chain : chains) {
      const int laps = chain.num_forward_only > 0 ? 2 : 1;
      if (chain.backbone == static_cast<int>(cuts.size())) {
        cuts.push_back(
            RandomCuts(stream, num_layers, static_cast<int>(chain.devices.size()) / laps));
      }
      for (int lap = 0; lap < laps; ++lap) {
        for (const LayerRange& range : cuts[chain.backbone]) {
          layout.layers.push_back(range);
          layout.recompute.push_back(lap + 1 == laps && stream.NextBelow(3) == 0);
        }
      }
    }
    int in_group = 0;
    for (int d = 0; d < schedule->num_devices(); ++d) {
      layout.replicas.push_back(Between(stream, 1, 2));
      in_group += layout.replicas.back();
    }
    layout.num_devices = in_group * Between(stream, 1, 2);
    layout.micro_batch_sizes = BatchSizes(*schedule, num_backbones, 2 * Between(stream, 1, 2));
    const auto placed = MakeLayout(*schedule, layout);
    ASSERT_TRUE(placed.ok()) << i << ": " << placed.status();
    const auto cost = CostModel::Create(profile, RandomCluster(stream, layout.num_devices));
    ASSERT_TRUE(cost.ok()) << i << ": " << cost.status();
    LowerOptions options;
    options.frozen = stream.NextBelow(2) == 0 ? FrozenPolicy::kFirst : FrozenPolicy::kCached;
    options.sync = stream.NextBelow(2) == 0 ? SyncPolicy::kBucketed : SyncPolicy::kEnd;
    options.bucket_bytes = Between(stream, 1, 2000);
    options.recv_lookahead = Between(stream, 0, 3);
    const bool copies = static_cast<int>(chains.size()) > num_backbones;
    if (!copies) options.shard = static_cast<ShardPolicy>(stream.NextBelow(3));
    options.reduce_each_micro_batch = stream.NextBelow(2) == 0;
    options.gather = static_cast<GatherPolicy>(stream.NextBelow(2));
    const auto plan = LowerPlan(*placed, *schedule, options, *cost);
    ASSERT_TRUE(plan.ok()) << i << ": " << plan.status();
    ASSERT_EQ(VerifyPlan(*plan, *cost), absl::OkStatus()) << i << "\n" << schedule->ToString();
    several_stages += schedule->num_stages() > schedule->num_devices();
    twins += copies;
    for (const Stage& stage : plan->stages()) {
      sharded += stage.sharded();
      keep_frozen += stage.keeps_frozen_weights();
    }
  }
  EXPECT_GT(several_stages, 300);
  EXPECT_GT(twins, 100);
  EXPECT_GT(sharded, 100);
  EXPECT_GT(keep_frozen, 50);
}

}  // namespace
}  // namespace dpipe
