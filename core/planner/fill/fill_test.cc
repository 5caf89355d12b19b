#include "core/planner/fill/fill.h"

#include <algorithm>
#include <vector>

#include "core/cost/testing/fake_profile.h"
#include "core/planner/fill/frozen_work.h"
#include "core/schedule/generators.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Two stages of one layer and one micro-batch of 4 samples; each pass takes 40. Rank 0 idles for 80
// before its backward pass. Rank 1 idles for 40 before its forward pass and for 40 before the
// optimizer step.
struct TwoStages {
  TwoStages() : cost(*CostModel::Create(Profile(), IdealCluster(2))) {
    const PipelineLayout layout = StraightLayout(2, 1, 4, {{{0, 1}, 1}, {{1, 2}, 1}});
    LowerOptions options;
    options.frozen = FrozenPolicy::kFill;
    plan = *LowerPlan(layout, *MakeSchedule("1f1b", {2, 1}), options, cost);
    for (int step = 0; step < 2; ++step) {
      const Nanos t = 160 * step;
      Add(step, 0, Instruction::FORWARD, t, t + 40);
      Add(step, 1, Instruction::FORWARD, t + 40, t + 80);
      Add(step, 1, Instruction::BACKWARD, t + 80, t + 120);
      Add(step, 0, Instruction::BACKWARD, t + 120, t + 160);
      Add(step, 0, Instruction::OPTIMIZER_STEP, t + 160, t + 160);
      Add(step, 1, Instruction::OPTIMIZER_STEP, t + 160, t + 160);
    }
  }

  static ModelProfile Profile() {
    UniformProfileOptions options;
    options.num_layers = 2;
    options.forward_ns = 10;
    options.grad_ns = 5;
    options.frozen_layers = 2;
    options.frozen_ns = 12;
    return UniformProfile(options);
  }

  void Add(int step, int rank, Instruction::Kind kind, Nanos start_ns, Nanos end_ns) {
    const DeviceProgram& program = plan.devices(rank);
    for (int i = 0; i < program.instructions_size(); ++i) {
      if (program.instructions(i).kind() != kind) continue;
      events.push_back({rank, TraceEvent::COMPUTE, step, i, start_ns, end_ns});
    }
  }

  CostModel cost;
  Plan plan;
  std::vector<StreamEvent> events;
};

TEST(FillTest, FillsGapsWithWorkThatFits) {
  TwoStages pipeline;
  const std::vector<FillItem> items =
      *PlaceFrozenWork(pipeline.plan, pipeline.events, pipeline.cost, {});
  // 4 samples of 2 layers of 12, two samples per device: 48 per device. Rank 0 runs all of it in
  // its gap of 80 before its backward pass (position 1). Rank 1's gap of 40 before its forward pass
  // (position 0) takes the first layer on both samples and the second layer on one. The remaining
  // 12 run in the gap of 40 before the optimizer step (position 2).
  Nanos before_forward = 0, at_the_end = 0;
  for (const FillItem& item : items) {
    EXPECT_EQ(item.step_offset, 1);
    const Nanos ns = item.load ? 0 : 12 * item.layers.size() * item.samples.size();
    if (item.rank == 0) {
      EXPECT_EQ(item.position, 1);
    } else {
      (item.position == 0 ? before_forward : at_the_end) += ns;
    }
  }
  EXPECT_EQ(before_forward, 36);
  EXPECT_EQ(at_the_end, 12);
}

TEST(FillTest, ContentionShortensTheGaps) {
  TwoStages pipeline;
  ClusterSpec cluster = IdealCluster(2);
  cluster.set_contention_factor(2);
  const CostModel cost = *CostModel::Create(TwoStages::Profile(), cluster);
  Nanos before_forward = 0;
  const absl::StatusOr<std::vector<FillItem>> items =
      PlaceFrozenWork(pipeline.plan, pipeline.events, cost, {});
  ASSERT_TRUE(items.ok()) << items.status();
  for (const FillItem& item : *items) {
    if (item.rank == 1 && item.position == 0 && !item.load) {
      before_forward += 12 * item.layers.size() * item.samples.size();
    }
  }
  EXPECT_EQ(before_forward, 12);  // in a gap of 40 / 2: one layer on one sample
}

TEST(FillTest, LeavesTheMarginFree) {
  TwoStages pipeline;
  FillOptions options;
  options.margin = 0.5;
  Nanos before_forward = 0;
  const absl::StatusOr<std::vector<FillItem>> items =
      PlaceFrozenWork(pipeline.plan, pipeline.events, pipeline.cost, options);
  ASSERT_TRUE(items.ok()) << items.status();
  for (const FillItem& item : *items) {
    if (item.rank == 1 && item.position == 0 && !item.load) {
      before_forward += 12 * item.layers.size() * item.samples.size();
    }
  }
  EXPECT_EQ(before_forward, 12);  // in a gap of 40 / 2
  options.margin = 1;
  EXPECT_EQ(PlaceFrozenWork(pipeline.plan, pipeline.events, pipeline.cost, options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FillTest, ExactOrInvalidArgument) {
  TwoStages pipeline;
  FillOptions options;
  options.exact = true;
  const absl::StatusOr<std::vector<FillItem>> items =
      PlaceFrozenWork(pipeline.plan, pipeline.events, pipeline.cost, options);
  ASSERT_TRUE(items.ok()) << items.status();
  Nanos total = 0;
  for (const FillItem& item : *items) {
    if (!item.load) total += 12 * item.layers.size() * item.samples.size();
  }
  EXPECT_EQ(total, 96);  // 4 samples of 2 layers of 12
  options.exact_limits.max_binaries = 1;
  EXPECT_EQ(PlaceFrozenWork(pipeline.plan, pipeline.events, pipeline.cost, options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FillTest, FasterDeviceTakesMore) {
  // Layers of 1200 or more do not fit in the first device's gap of 800. The second device is 64
  // times as fast: its gaps of 400, less 64 for rounding, have room for all of them.
  TwoStages pipeline;
  ClusterSpec cluster = IdealCluster(2);
  DeviceClass* slow = cluster.add_device_classes();
  slow->set_name("slow");
  slow->set_speed(1);
  slow->set_num_devices(1);
  DeviceClass* fast = cluster.add_device_classes();
  fast->set_name("fast");
  fast->set_speed(64);
  fast->set_first_rank(1);
  fast->set_num_devices(1);
  ModelProfile profile = TwoStages::Profile();
  for (ComponentProfile& component : *profile.mutable_components()) {
    if (component.is_backbone()) continue;
    for (LayerProfile& layer : *component.mutable_layers()) {
      layer.mutable_timings(0)->set_forward_ns(1200);
    }
  }
  const absl::StatusOr<CostModel> cost = CostModel::Create(profile, cluster);
  ASSERT_TRUE(cost.ok()) << cost.status();
  TwoStages gaps;
  for (StreamEvent& event : gaps.events) {
    event.start_ns *= 10;
    event.end_ns *= 10;
  }
  const absl::StatusOr<std::vector<FillItem>> items =
      PlaceFrozenWork(gaps.plan, gaps.events, *cost, {});
  ASSERT_TRUE(items.ok()) << items.status();
  int fast_samples = 0;
  for (const FillItem& item : *items) {
    if (item.rank == 1 && item.load) fast_samples += item.samples.size();
  }
  EXPECT_EQ(fast_samples, 4);
}

TEST(FillTest, SmallerBatchesIfMemoryIsShort) {
  // A frozen layer takes 100 bytes per sample. Each device has two of the 4 samples. It runs both
  // at once, or one at a time if it has only 150 bytes.
  TwoStages pipeline;
  ModelProfile profile = TwoStages::Profile();
  for (ComponentProfile& component : *profile.mutable_components()) {
    if (component.is_backbone()) continue;
    for (LayerProfile& layer : *component.mutable_layers()) {
      layer.set_workspace_bytes_per_sample(100);
    }
  }
  for (int64_t limit : {0, 150}) {
    ClusterSpec cluster = IdealCluster(2);
    cluster.set_memory_bytes_per_device(limit);
    const CostModel cost = *CostModel::Create(profile, cluster);
    const absl::StatusOr<std::vector<FillItem>> items =
        PlaceFrozenWork(pipeline.plan, pipeline.events, cost, {});
    ASSERT_TRUE(items.ok()) << items.status();
    int largest = 0, total = 0;
    for (const FillItem& item : *items) {
      if (item.load) continue;
      largest = std::max(largest, item.samples.size());
      total += item.samples.size() * item.layers.size();
    }
    EXPECT_EQ(largest, limit == 0 ? 2 : 1);
    EXPECT_EQ(total, 8);
  }
}

TEST(FillTest, NoItemsWithoutFrozenWork) {
  const CostModel cost = *CostModel::Create(UniformProfile({}), IdealCluster(2));
  EXPECT_TRUE(PlaceFrozenWork(TwoStages().plan, {}, cost, {})->empty());
}

TEST(FrozenWorkTest, ComponentsThatReadEachOtherFormOneChain) {
  // text and vae are independent; control reads vae and comes after it.
  ModelProfile profile = TwoStages::Profile();
  const ComponentProfile vae = profile.components(0);
  ComponentProfile* text = profile.add_components();
  *text = vae;
  text->set_name("text");
  ComponentProfile* control = profile.add_components();
  *control = vae;
  control->set_name("control");
  ValueProfile* input = control->add_values();
  input->set_name("latent");
  input->set_producer_layer(-1);
  input->add_consumer_layers(0);
  input->set_source_component(vae.name());
  for (const ValueProfile& value : vae.values()) {
    if (value.is_output()) input->set_source_value(value.name());
  }
  const absl::StatusOr<CostModel> cost = CostModel::Create(profile, IdealCluster(2));
  ASSERT_TRUE(cost.ok()) << cost.status();
  const FrozenWork work = MakeFrozenWork(*cost, 3);
  ASSERT_EQ(work.chains.size(), 2);
  std::vector<int> components;
  for (const WorkStep& step : work.chains[0].steps) {
    if (step.layer == kLoadStep) components.push_back(step.component);
  }
  EXPECT_EQ(components, (std::vector<int>{0, 3}));
  EXPECT_EQ(work.chains[1].steps[0].component, 2);
  EXPECT_EQ(work.chains[1].step_ns[1], (std::vector<Nanos>{0, 12, 24, 36}));
  EXPECT_EQ(work.chains[1].total_ns, (std::vector<Nanos>{0, 24, 48, 72}));
}

}  // namespace
}  // namespace dpipe
