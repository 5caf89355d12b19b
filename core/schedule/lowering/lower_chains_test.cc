// Plans of schedules with several stages per device, several chains, laps and recomputation.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "core/cost/testing/fake_profile.h"
#include "core/schedule/builders/list_schedule.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/memory/memory.h"
#include "core/schedule/testing/plan_lists.h"
#include "core/schedule/verification/verify.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

const ListStyle kStages{true, false};
const ListStyle kSamples{true, true};

Slot F(int stage, int m) { return {Pass::kForward, m, stage}; }
Slot B(int stage, int m) { return {Pass::kBackward, m, stage}; }

struct Case {
  Schedule schedule;
  CostModel cost;
  LayoutOptions layout;
  LowerOptions options;

  absl::StatusOr<Plan> Lower() const {
    DPIPE_ASSIGN_OR_RETURN(const PipelineLayout placed, MakeLayout(schedule, layout));
    return LowerPlan(placed, schedule, options, cost);
  }
};

Case MakeCase(const ModelProfile& profile, std::vector<ScheduleChain> chains,
              std::vector<std::vector<Slot>> slots, int num_devices, int num_stages) {
  auto schedule = Schedule::Create("by hand", std::move(chains), std::move(slots));
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  auto cost = CostModel::Create(profile, IdealCluster(num_devices));
  EXPECT_TRUE(cost.ok()) << cost.status();
  Case c{*std::move(schedule), *std::move(cost), {}, {}};
  c.layout.num_devices = num_devices;
  for (int s = 0; s < num_stages; ++s) c.layout.layers.push_back({s, s + 1});
  return c;
}

// A V: stages 0 and 3 on device 0, stages 1 and 2 on device 1.
Case V() {
  UniformProfileOptions profile;
  profile.value_bytes = 10;
  profile.saved_bytes = 100;
  return MakeCase(UniformProfile(profile), {{{0, 1, 1, 0}, 2, 0, 0}},
                  {{F(0, 0), F(0, 1), F(3, 0), B(3, 0), F(3, 1), B(3, 1), B(0, 0), B(0, 1)},
                   {F(1, 0), F(2, 0), F(1, 1), F(2, 1), B(2, 0), B(1, 0), B(2, 1), B(1, 1)}},
                  2, 4);
}

TEST(LowerChainsTest, VByHand) {
  Case c = V();
  c.options.recv_lookahead = 0;
  auto plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Stages 1 and 2 exchange activations and gradients without messages.
  EXPECT_EQ(ListOf(*plan, 0, kStages),
            "F0.0 >1 F0.1 >1 <1 F3.0 B3.0 >1 <1 F3.1 B3.1 >1 <1 B0.0 <1 B0.1 O");
  EXPECT_EQ(ListOf(*plan, 1, kStages),
            "<0 F1.0 F2.0 >0 <0 F1.1 F2.1 >0 <0 B2.0 B1.0 >0 <0 B2.1 B1.1 >0 O");
  EXPECT_TRUE(VerifyPlan(*plan, c.cost).ok()) << VerifyPlan(*plan, c.cost);
}

TEST(LowerChainsTest, VPassesValuesWithinTheRank) {
  const Case c = V();
  const auto plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  // The error names a forward pass without its local input.
  Plan swapped = *plan;
  auto* list = swapped.mutable_devices(1)->mutable_instructions();
  ASSERT_EQ((*list)[1].stage(), 1);
  int second = 2;
  while ((*list)[second].kind() != Instruction::FORWARD) ++second;
  ASSERT_EQ((*list)[second].stage(), 2);
  list->SwapElements(1, second);
  EXPECT_EQ(VerifyPlan(swapped, c.cost).message(),
            "rank 1, instruction 1 (FORWARD): stage 1 of this rank has not computed micro-batch 0");
}

// Two directions on two devices, with one micro-batch each. Chain 0 has stages 0 and 1; chain 1 has
// stages 2 and 3 in the opposite direction.
Case TwoDirections() {
  UniformProfileOptions profile;
  profile.num_layers = 2;
  profile.parameter_bytes = 100;
  Case c =
      MakeCase(UniformProfile(profile), {{{0, 1}, 1, 0, 0}, {{1, 0}, 1, 0, 0}},
               {{F(0, 0), F(3, 0), B(3, 0), B(0, 0)}, {F(2, 0), F(1, 0), B(1, 0), B(2, 0)}}, 2, 4);
  c.layout.layers = {{0, 1}, {1, 2}, {0, 1}, {1, 2}};
  return c;
}

TEST(LowerChainsTest, TwoDirectionsByHand) {
  Case c = TwoDirections();
  c.options.recv_lookahead = 0;
  auto plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Both copies of layer 1 have their gradients at the same time, when B3 and B1 end; those of
  // layer 0 when B0 and B2 end. The messages with gradients that the other device waits for are
  // exchanged before the first reduction.
  EXPECT_EQ(ListOf(*plan, 0, kSamples),
            "F0.0[0,1) >1[0,1) <1[1,2) F3.0[1,2) B3.0[1,2) >1[1,2) <1[0,1) R1-2 B0.0[0,1) R0-1 O");
  EXPECT_EQ(ListOf(*plan, 1, kSamples),
            "F2.0[1,2) >0[1,2) <0[0,1) F1.0[0,1) B1.0[0,1) >0[0,1) <0[1,2) R1-2 B2.0[1,2) R0-1 O");
  EXPECT_EQ(plan->num_micro_batches(), 2);
  EXPECT_EQ(plan->micro_batch_size(), 1);
  EXPECT_EQ(plan->global_batch(), 2);
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  c.options.sync = SyncPolicy::kEnd;
  plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 0, kStages), "F0.0 >1 <1 F3.0 B3.0 >1 <1 B0.0 R0-1 R1-2 O");
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  // Both ranks must reduce in the same order; otherwise they deadlock.
  auto* list = plan->mutable_devices(1)->mutable_instructions();
  list->SwapElements(list->size() - 3, list->size() - 2);
  EXPECT_NE(VerifyPlan(*plan, c.cost).message().find("deadlock in the steady step"),
            absl::string_view::npos)
      << VerifyPlan(*plan, c.cost);
}

TEST(LowerChainsTest, RejectsCopiesOnOneDevice) {
  Case c = TwoDirections();
  const ScheduleChain chain{{0, 1}, 1, 0, 0};
  auto schedule = Schedule::Create(
      "same way", {chain, chain},
      {{F(0, 0), F(2, 0), B(0, 0), B(2, 0)}, {F(1, 0), B(1, 0), F(3, 0), B(3, 0)}});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  c.schedule = *schedule;
  EXPECT_EQ(c.Lower().status().message(), "stages 0 and 2 hold the same layers [0, 1) on device 0");
}

// A second backbone, "up", of two layers that take twice as long. Both backbones read the encoder.
ModelProfile TwoBackbones() {
  UniformProfileOptions options;
  options.num_layers = 2;
  options.frozen_layers = 1;
  options.value_bytes = 10;
  ModelProfile profile = UniformProfile(options);
  options.forward_ns *= 2;
  ModelProfile other = UniformProfile(options);
  for (const ComponentProfile& component : other.components()) {
    if (!component.is_backbone()) continue;
    *profile.add_components() = component;
    profile.mutable_components(profile.components_size() - 1)->set_name("up");
  }
  return profile;
}

TEST(LowerChainsTest, TwoBackbonesByHand) {
  // The first backbone runs two micro-batches of one sample. The second runs one micro-batch of two
  // samples in the opposite direction.
  Case c = MakeCase(TwoBackbones(), {{{0, 1}, 2, 0, 0}, {{1, 0}, 1, 0, 1}},
                    {{F(0, 0), F(0, 1), F(3, 0), B(3, 0), B(0, 0), B(0, 1)},
                     {F(2, 0), F(1, 0), B(1, 0), F(1, 1), B(1, 1), B(2, 0)}},
                    2, 4);
  c.layout.layers = {{0, 1}, {1, 2}, {0, 1}, {1, 2}};
  c.layout.micro_batch_sizes = {1, 2};
  c.options.recv_lookahead = 0;
  auto plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  // Each rank encodes one sample and sends the result to the other, whose first layer reads both.
  EXPECT_EQ(ListOf(*plan, 0, kSamples).substr(0, 47),
            "L[0,1) Z[0,1) >1[0,1) <1[1,2) F0.0[0,1) >1[0,1)");
  EXPECT_EQ(ListOf(*plan, 1, kSamples).substr(0, 47),
            "L[1,2) Z[1,2) <0[0,1) >0[1,2) F2.0[0,2) >0[0,2)");
  EXPECT_EQ(plan->num_micro_batches(), 2);
  EXPECT_EQ(plan->chains(1).num_micro_batches(), 1);
  EXPECT_NE(plan->chains(0).component(), plan->chains(1).component());
  // With cached outputs, each backbone's first stage loads its own.
  c.options.frozen = FrozenPolicy::kCached;
  plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ListOf(*plan, 1, kSamples).substr(0, 25), "L[0,2) F2.0[0,2) >0[0,2) ");
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  // All backbones must train on the same number of samples.
  c.layout.micro_batch_sizes = {1, 1};
  EXPECT_EQ(c.Lower().status().message(),
            "backbone 1 trains on 1 samples of a pipeline group and backbone 0 on 2");
}

TEST(LowerChainsTest, RecomputationByHand) {
  Case c = V();
  c.layout.recompute = {true, false, false, false};
  c.options.recv_lookahead = 0;
  const auto plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  EXPECT_EQ(ListOf(*plan, 0, kStages),
            "F0.0 >1 F0.1 >1 <1 F3.0 B3.0 >1 <1 F3.1 B3.1 >1 <1 C0.0 B0.0 <1 C0.1 B0.1 O");
  Plan without = *plan;
  auto* list = without.mutable_devices(0)->mutable_instructions();
  int at = 0;
  while ((*list)[at].kind() != Instruction::RECOMPUTE) ++at;
  list->DeleteSubrange(at, 1);
  EXPECT_EQ(
      VerifyPlan(without, c.cost).message(),
      absl::StrCat("rank 0, instruction ", at, " (BACKWARD): micro-batch 0 is not recomputed"));
}

TEST(LowerChainsTest, MemoryOfVAndRecomputation) {
  Case c = V();
  auto plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Device 0 keeps both micro-batches of stage 0 (2 x 100) and one at a time of stage 3 (100). It
  // also holds stage 3's input (10, until its forward pass) or outgoing gradient (10).
  const std::vector<int64_t> held = MemoryOfRank(*plan, 0, c.cost).instruction_bytes;
  EXPECT_EQ(*std::max_element(held.begin(), held.end()), 320);
  c.layout.recompute = {true, true, true, true};
  plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  // Only one stage's 100 at a time, its gradients (10 in, 10 out) and inputs of 10.
  EXPECT_LE(MemoryOfRank(*plan, 0, c.cost).peak_bytes, 140);
  EXPECT_GE(MemoryOfRank(*plan, 0, c.cost).peak_bytes, 110);
}

TEST(LowerChainsTest, SelfConditioningByHand) {
  UniformProfileOptions options;
  options.num_layers = 2;
  options.value_bytes = 10;
  options.parameter_bytes = 1000;
  ModelProfile profile = UniformProfile(options);
  profile.mutable_components(0)->set_self_conditioning_bytes_per_sample(7);
  Case c = MakeCase(profile, {{{0, 1, 0, 1}, 1, 2, 0}},
                    {{F(0, 0), F(2, 0), B(2, 0)}, {F(1, 0), F(3, 0), B(3, 0)}}, 2, 4);
  c.layout.layers = {{0, 1}, {1, 2}, {0, 1}, {1, 2}};
  auto plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  EXPECT_EQ(ListOf(*plan, 0, kStages), "F0.0 >1 <1 F2.0 >1 <1 B2.0 O");
  EXPECT_EQ(ListOf(*plan, 1, kStages), "<0 F1.0 >0 <0 F3.0 B3.0 >0 O");
  EXPECT_EQ(plan->devices(0).instructions(1).bytes(), 10);
  EXPECT_EQ(plan->devices(0).instructions(2).bytes(), 7);  // the estimate
  EXPECT_TRUE(plan->stages(1).forward_only());
  // Both laps share one set of weights, gradients and moments.
  EXPECT_EQ(MemoryOfRank(*plan, 0, c.cost).state_bytes, 4000);
  // Laps that differ are rejected in the layout and in the plan.
  c.layout.layers[2].end = 0;
  EXPECT_EQ(c.Lower().status().message(),
            "stage 2: layers [0, 0) must begin at 0 and not be empty");
  plan->mutable_stages(1)->set_forward_only(false);
  EXPECT_EQ(VerifyPlan(*plan, c.cost).message(), "stage 2: layers.begin is 0 and must be 2");
}

TEST(LowerChainsTest, RejectsSchedulesOfAnotherLayout) {
  const Case v = V();
  const auto layout = MakeLayout(v.schedule, v.layout);
  ASSERT_TRUE(layout.ok()) << layout.status();
  PipelineLayout other = *layout;
  other.stages[2].device = 0;
  EXPECT_EQ(LowerPlan(other, v.schedule, {}, v.cost).status().message(),
            "schedule by hand, stage 2: device 1, chain 0; the layout has device 0, chain 0, or "
            "they differ in whether it is forward-only");
  LayoutOptions short_of_layers = v.layout;
  short_of_layers.layers.pop_back();
  EXPECT_EQ(MakeLayout(v.schedule, short_of_layers).status().message(),
            "the schedule has 4 stages and 3 are given values");
}

TEST(LowerChainsTest, ShardedByHand) {
  UniformProfileOptions options;
  options.num_layers = 2;
  options.parameter_bytes = 100;
  Case c = MakeCase(UniformProfile(options), {{{0}, 1, 0, 0}}, {{F(0, 0), B(0, 0)}}, 2, 1);
  c.layout.layers = {{0, 2}};
  c.options.bucket_bytes = 100;
  c.options.shard = ShardPolicy::kBuckets;
  auto plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  // Layer 1 stays gathered between its two passes. Layer 0 is gathered again during the backward
  // pass of layer 1.
  EXPECT_EQ(ListOf(*plan, 1), "G0-1 G1-2 F0 D0-1 F0 G0-1 B0 R1-2 D1-2 B0 R0-1 D0-1 O");
  EXPECT_TRUE(plan->stages(0).sharded());
  // State: half of 2 x 400 (master, gradient, two moments). Peak: 3 x 100 more while both layers
  // are gathered and one has its whole gradient. The room for reducing a bucket is the other rank's
  // row of each of two chunks.
  const RankMemory memory = MemoryOfRank(*plan, 0, c.cost);
  const int64_t room = 2 * (112 + 64);
  EXPECT_EQ(memory.state_bytes, 400 + room);
  EXPECT_EQ(memory.peak_bytes, 700 + room);
  Plan damaged = *plan;
  damaged.mutable_devices(1)->mutable_instructions()->DeleteSubrange(5, 1);
  EXPECT_EQ(VerifyPlan(damaged, c.cost).message(),
            "rank 1, instruction 8 (BACKWARD): the parameters of layer 0 are not gathered");
  damaged = *plan;
  damaged.mutable_devices(1)->mutable_instructions()->DeleteSubrange(11, 1);
  EXPECT_EQ(VerifyPlan(damaged, c.cost).message(),
            "rank 1, instruction 11 (OPTIMIZER_STEP): the parameters of layer 0 are not released");
  damaged = *plan;
  damaged.mutable_devices(1)->mutable_instructions()->DeleteSubrange(10, 1);
  EXPECT_EQ(VerifyPlan(damaged, c.cost).message(),
            "rank 1, instruction 11 (OPTIMIZER_STEP): layer 0 is not reduced over the 2 ranks of "
            "stage 0");
  c.options.shard = ShardPolicy::kStages;
  plan = c.Lower();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(VerifyPlan(*plan, c.cost), absl::OkStatus());
  EXPECT_EQ(ListOf(*plan, 0), "G0-2 F0 B0 R0-2 D0-2 O");
  Case copies = TwoDirections();
  copies.options.shard = ShardPolicy::kStages;
  EXPECT_EQ(copies.Lower().status().message(),
            "stages 0 and 2 are copies of the same layers, which cannot be sharded");
}

// 4 layers of 100 bytes of weights, of which 20 are trained, that save 30 bytes per sample.
Case Adapters(const std::string& dtype, ShardPolicy shard, GatherPolicy gather) {
  UniformProfileOptions options;
  options.parameter_bytes = 100;
  options.saved_bytes = 30;
  ModelProfile profile = UniformProfile(options);
  profile.set_dtype(dtype);
  for (LayerProfile& layer : *profile.mutable_components(0)->mutable_layers()) {
    layer.set_trainable_parameter_bytes(20);
  }
  Case c = MakeCase(profile, {{{0}, 1, 0, 0}}, {{F(0, 0), B(0, 0)}}, 2, 1);
  ClusterSpec cluster = IdealCluster(2);
  cluster.set_devices_share_memory(true);  // no memory for reductions
  c.cost = *CostModel::Create(profile, cluster);
  c.layout.layers = {{0, 4}};
  c.options.bucket_bytes = 100;
  c.options.shard = shard;
  c.options.gather = gather;
  return c;
}

// The account of adapters on two ranks, per layer: 80 bytes of frozen weights; 20 of trained ones,
// 20 of gradients and 40 of moments; 30 of activations. Gradients of all layers are one bucket.
TEST(LowerChainsTest, AdaptersByHand) {
  struct Account {
    int frozen, trained, gathered, gradients, activations;
    int state() const { return frozen + trained; }
    int peak() const { return state() + gathered + gradients + activations; }
  };
  const auto expect = [](const Plan& plan, const CostModel& cost, const Account& account) {
    ASSERT_EQ(VerifyPlan(plan, cost), absl::OkStatus());
    const RankMemory memory = MemoryOfRank(plan, 0, cost);
    EXPECT_EQ(memory.state_bytes, account.state());
    EXPECT_EQ(memory.peak_bytes, account.peak());
  };
  const auto bytes_of = [](const Plan& plan, Instruction::Kind kind) {
    std::vector<int64_t> bytes;
    for (const Instruction& i : plan.devices(0).instructions()) {
      if (i.kind() == kind) bytes.push_back(i.bytes());
    }
    return bytes;
  };
  const Case whole = Adapters("fp32", ShardPolicy::kNone, GatherPolicy::kPassByPass);
  expect(*whole.Lower(), whole.cost, {4 * 80, 4 * 80, 0, 0, 4 * 30});

  // ZeRO-1 divides what is trained. It divided all weights: 160 + 160 of state, 400 gathered.
  for (const ShardPolicy shard : {ShardPolicy::kBuckets, ShardPolicy::kStages}) {
    const Case once = Adapters("fp32", shard, GatherPolicy::kOnce);
    const Plan plan = *once.Lower();
    EXPECT_TRUE(plan.stages(0).keeps_frozen_weights());
    EXPECT_EQ(ListOf(plan, 0), "G0-4 F0 B0 R0-4 D0-4 O");
    EXPECT_EQ(bytes_of(plan, Instruction::GATHER_PARAMS), std::vector<int64_t>{80});
    EXPECT_EQ(bytes_of(plan, Instruction::REDUCE_GRADS), std::vector<int64_t>{80});
    expect(plan, once.cost, {4 * 80, 4 * 80 / 2, 80, 80, 4 * 30});
    Plan damaged = plan;
    damaged.mutable_stages(0)->set_keeps_frozen_weights(false);
    EXPECT_EQ(VerifyPlan(damaged, once.cost).message(),
              "rank 0, instruction 0 (GATHER_PARAMS): bytes is 80 and must be 400");
    damaged.mutable_stages(0)->set_keeps_frozen_weights(true);
    damaged.mutable_stages(0)->set_sharded(false);
    EXPECT_EQ(VerifyPlan(damaged, once.cost).message(),
              "stage 0 keeps frozen weights, but is not sharded");
  }
  // Working copies take half as much as the weights, and are what is gathered.
  const Case bf16 = Adapters("bf16", ShardPolicy::kBuckets, GatherPolicy::kOnce);
  expect(*bf16.Lower(), bf16.cost, {4 * 120, 4 * 90 / 2, 40, 80, 4 * 30});

  // ZeRO-3 divides all weights and gathers two layers at a time. It gathered a bucket of gradients
  // at a time, all 400 bytes.
  const Case each = Adapters("fp32", ShardPolicy::kBuckets, GatherPolicy::kPassByPass);
  const Plan plan = *each.Lower();
  EXPECT_FALSE(plan.stages(0).keeps_frozen_weights());
  EXPECT_EQ(ListOf(plan, 0),
            "G0-1 G1-2 F0 D0-1 G2-3 F0 D1-2 G3-4 F0 D2-3 F0 G2-3 B0 D3-4 G1-2 B0 D2-3 G0-1 B0 "
            "D1-2 B0 R0-4 D0-1 O");
  EXPECT_EQ(bytes_of(plan, Instruction::GATHER_PARAMS), std::vector<int64_t>(7, 100));
  EXPECT_EQ(bytes_of(plan, Instruction::REDUCE_GRADS), std::vector<int64_t>{80});
  expect(plan, each.cost, {4 * 80 / 2, 4 * 80 / 2, 200, 80, 4 * 30});
}

// Two micro-batches: whole gradients of both layers are kept until the second one, or those of one
// layer at a time.
TEST(LowerChainsTest, ShardsAccumulate) {
  UniformProfileOptions options;
  options.num_layers = 3;
  options.parameter_bytes = 100;
  Case c = MakeCase(UniformProfile(options), {{{0}, 2, 0, 0}},
                    {{F(0, 0), B(0, 0), F(0, 1), B(0, 1)}}, 2, 1);
  c.layout.layers = {{0, 3}};
  c.options.bucket_bytes = 100;
  c.options.shard = ShardPolicy::kBuckets;
  const auto reductions = [](const Plan& plan) {
    std::string list;
    for (const char kind : ListOf(plan, 0)) {
      if (kind == 'B' || kind == 'R') list += kind;
    }
    return list;
  };
  const auto whole = c.Lower();
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(reductions(*whole), "BBBBRBRBR");
  c.options.reduce_each_micro_batch = true;
  for (SyncPolicy sync : {SyncPolicy::kBucketed, SyncPolicy::kEnd}) {
    c.options.sync = sync;
    const auto each = c.Lower();
    ASSERT_TRUE(each.ok()) << each.status();
    ASSERT_EQ(VerifyPlan(*each, c.cost), absl::OkStatus());
    EXPECT_EQ(reductions(*each), "BRBRBRBRBRBR");
    // Two layers are gathered. Three whole gradients, or one of the pass and one under reduction.
    const RankMemory before = MemoryOfRank(*whole, 0, c.cost), now = MemoryOfRank(*each, 0, c.cost);
    EXPECT_EQ(before.peak_bytes - before.state_bytes, 200 + 300);
    EXPECT_EQ(now.peak_bytes - now.state_bytes, 200 + 200);
    Plan damaged = *each;
    auto* list = damaged.mutable_devices(0)->mutable_instructions();
    int last = list->size() - 1;
    while (list->Get(last).kind() != Instruction::REDUCE_GRADS) --last;
    list->DeleteSubrange(last, 1);
    EXPECT_EQ(
        VerifyPlan(damaged, c.cost).message(),
        absl::StrCat("rank 0, instruction ", list->size() - 1,
                     " (OPTIMIZER_STEP): layer 0 is not reduced over the 2 ranks of stage 0"));
  }
}

}  // namespace
}  // namespace dpipe
