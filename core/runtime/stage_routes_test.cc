#include "core/runtime/stage_routes.h"

#include <string>
#include <utility>

#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using nn::Element;
using nn::LayerKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns four layers in a chain, a to d; the last one also reads the first one's output.
nn::Model Skip(bool self_conditioning = false) {
  nn::ProgramBuilder builder("u");
  const nn::ValueType vector{Shape{4}, Element::kCompute};
  const nn::LinearSpec spec{4, /*bias=*/false};
  ValueId x = builder.AddInput("x", vector);
  if (self_conditioning) x = builder.AddInput("last", vector);
  builder.BeginLayer("a", LayerKind::kTrainable);
  const ValueId a = AddLinear(&builder, "a", x, spec);
  builder.BeginLayer("b", LayerKind::kTrainable);
  const ValueId b = AddLinear(&builder, "b", a, spec);
  builder.BeginLayer("c", LayerKind::kTrainable);
  const ValueId c = AddLinear(&builder, "c", b, spec);
  builder.BeginLayer("d", LayerKind::kTrainable);
  const ValueId sum = AddSum(&builder, a, c);
  if (self_conditioning) builder.MarkOutput(AddDetach(&builder, sum), "estimate");
  builder.MarkOutput(AddLinear(&builder, "d", sum, spec), "loss");
  std::vector<nn::Component> components;
  components.push_back({"u", true, builder.Build(), {}});
  if (self_conditioning) components[0].self_conditioning = {"last", "estimate"};
  auto model = nn::Model::Create("skip", std::move(components));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

struct Part {
  LayerRange layers;
  int rank;
};

Plan PlanOf(const std::vector<Part>& parts, int num_forward_only = 0) {
  Plan plan;
  PipelineChain* chain = plan.add_chains();
  chain->set_num_stages(static_cast<int>(parts.size()));
  for (const Part& part : parts) {
    Stage* stage = plan.add_stages();
    stage->set_id(plan.stages_size() - 1);
    stage->mutable_layers()->set_begin(part.layers.begin);
    stage->mutable_layers()->set_end(part.layers.end);
    stage->add_ranks(part.rank);
    stage->set_forward_only(stage->id() < num_forward_only);
    stage->set_recompute(!stage->forward_only());
  }
  return plan;
}

std::vector<StageRoutes> Routes(const nn::Model& model, const Plan& plan) {
  const auto routes = RouteStages(plan, model);
  EXPECT_TRUE(routes.ok()) << routes.status();
  return *routes;
}

std::vector<std::string> Names(const nn::Model& model, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (ValueId id : ids) names.push_back(model.backbone().program.value(id).name.substr(0, 1));
  return names;
}

TEST(StageRoutesTest, AStraightChainRelaysTheSkip) {
  const nn::Model model = Skip();
  const auto routes = Routes(model, PlanOf({{{0, 1}, 0}, {{1, 2}, 1}, {{2, 3}, 2}, {{3, 4}, 3}}));
  EXPECT_THAT(Names(model, routes[0].activations_out), ElementsAre("a"));
  EXPECT_THAT(Names(model, routes[1].activations_out), ElementsAre("a", "b"));
  EXPECT_THAT(Names(model, routes[2].activations_out), ElementsAre("a", "c"));
  for (int s = 0; s < 3; ++s) {
    EXPECT_EQ(routes[s + 1].activations_in, routes[s].activations_out);
    EXPECT_EQ(routes[s].gradients_in, routes[s].activations_out);
    EXPECT_EQ(routes[s + 1].gradients_out, routes[s].gradients_in);
    EXPECT_FALSE(routes[s].next_is_local);
    EXPECT_EQ(routes[s].ends_lap, false);
  }
  EXPECT_THAT(Names(model, routes[2].blocks[0].reads), ElementsAre("b"));
  EXPECT_TRUE(routes[3].ends_lap);
  for (const StageRoutes& stage : routes) {
    EXPECT_THAT(stage.keeps, IsEmpty());
    EXPECT_THAT(stage.kept_reads, IsEmpty());
    EXPECT_THAT(stage.kept_gradients_in, IsEmpty());
  }
}

TEST(StageRoutesTest, SkipOfAVStaysAndItsGradientTravels) {
  const nn::Model model = Skip();
  const auto routes = Routes(model, PlanOf({{{0, 1}, 0}, {{1, 2}, 1}, {{2, 3}, 1}, {{3, 4}, 0}}));
  EXPECT_THAT(Names(model, routes[0].activations_out), ElementsAre("a"));
  EXPECT_THAT(Names(model, routes[0].keeps), ElementsAre("a"));
  EXPECT_THAT(routes[1].activations_out, IsEmpty()) << "b has its reader on its own device";
  EXPECT_THAT(Names(model, routes[1].keeps), ElementsAre("b"));
  EXPECT_TRUE(routes[1].next_is_local && routes[2].previous_is_local);
  ASSERT_EQ(routes[2].kept_reads.size(), 1u);
  EXPECT_TRUE(routes[2].kept_reads[0].is_last);
  EXPECT_THAT(Names(model, routes[2].activations_out), ElementsAre("c"));
  ASSERT_EQ(routes[3].kept_reads.size(), 1u);
  EXPECT_THAT(Names(model, {routes[3].kept_reads[0].id}), ElementsAre("a"));
  // Stage 1 reads a too, so d's part of its gradient passes through here.
  EXPECT_THAT(Names(model, routes[3].gradients_out), ElementsAre("a", "c"));
  EXPECT_THAT(Names(model, routes[2].gradients_out), ElementsAre("a"));
  EXPECT_THAT(Names(model, routes[2].kept_gradients_out), ElementsAre("b"));
  EXPECT_THAT(Names(model, routes[1].kept_gradients_in), ElementsAre("b"));
  EXPECT_THAT(Names(model, routes[1].gradients_out), ElementsAre("a"));
}

TEST(StageRoutesTest, ASkipReadAtHomeOnlyStaysWithItsGradient) {
  const nn::Model model = Skip();
  const auto routes = Routes(model, PlanOf({{{0, 2}, 0}, {{2, 3}, 1}, {{3, 4}, 0}}));
  EXPECT_THAT(Names(model, routes[0].activations_out), ElementsAre("b"));
  EXPECT_THAT(Names(model, routes[1].activations_out), ElementsAre("c"));
  EXPECT_THAT(Names(model, routes[2].gradients_out), ElementsAre("c"));
  EXPECT_THAT(Names(model, routes[2].kept_gradients_out), ElementsAre("a"));
  EXPECT_THAT(Names(model, routes[0].kept_gradients_in), ElementsAre("a"));
}

// The last block alone reads what the middle one hands on; a is read twice, the last time (from the
// last block to the first) by the middle one.
TEST(StageRoutesTest, BlocksReadWhatEarlierOnesMade) {
  const nn::Model model = Skip();
  Plan plan = PlanOf({{{0, 4}, 0}});
  for (int cut : {1, 3}) plan.mutable_stages(0)->add_recompute_cuts(cut);
  const auto routes = Routes(model, plan);
  const std::vector<RecomputedBlock>& blocks = routes[0].blocks;
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[1].layers, (LayerRange{1, 3}));
  EXPECT_THAT(blocks[0].reads, IsEmpty());
  EXPECT_THAT(Names(model, blocks[1].reads), ElementsAre("a"));
  EXPECT_THAT(Names(model, blocks[1].last_reads), ElementsAre("a"));
  EXPECT_THAT(Names(model, blocks[2].reads), ElementsAre("a", "c"));
  EXPECT_THAT(Names(model, blocks[2].last_reads), ElementsAre("c"));
}

TEST(StageRoutesTest, EstimateIsSentBetweenLaps) {
  const nn::Model model = Skip(/*self_conditioning=*/true);
  const auto routes = Routes(
      model, PlanOf({{{0, 2}, 0}, {{2, 4}, 1}, {{0, 2}, 0}, {{2, 4}, 1}}, /*num_forward_only=*/2));
  EXPECT_THAT(Names(model, routes[1].activations_out), ElementsAre("e"));
  EXPECT_THAT(Names(model, routes[2].activations_in), ElementsAre("l"));
  EXPECT_THAT(Names(model, routes[2].blocks[0].reads), ElementsAre("l"));
  EXPECT_THAT(routes[2].gradients_out, IsEmpty());
  EXPECT_EQ(routes[1].lap, 0);
  EXPECT_EQ(routes[3].lap, 2);
  EXPECT_THAT(routes[1].gradients_out, IsEmpty()) << "the first lap has none";
  EXPECT_THAT(Names(model, routes[3].gradients_out), ElementsAre("a", "b"));
}

TEST(StageRoutesTest, InvalidChainsAreRefused) {
  const nn::Model model = Skip();
  const auto error = [&](const Plan& plan) {
    return std::string(RouteStages(plan, model).status().message());
  };
  EXPECT_THAT(error(PlanOf({{{0, 2}, 0}, {{3, 4}, 1}})),
              HasSubstr("chain of u: stage 1 does not continue it at layer 2"));
  EXPECT_THAT(error(PlanOf({{{0, 2}, 0}, {{2, 3}, 1}})),
              HasSubstr("its stages end at layer 3 of 4"));
  EXPECT_THAT(error(PlanOf({{{0, 4}, 0}, {{0, 4}, 0}}, 1)),
              HasSubstr("model skip: component u declares no self-conditioning"));
  Plan plan = PlanOf({{{0, 4}, 0}});
  plan.mutable_chains(0)->set_num_stages(2);
  EXPECT_THAT(error(plan), HasSubstr("a chain of 2 stages from 0; the plan has 1"));
  plan.mutable_chains(0)->set_component(3);
  EXPECT_THAT(error(plan), HasSubstr("component 3, which is not a backbone"));
  plan = PlanOf({{{0, 4}, 0}});
  *plan.add_stages() = plan.stages(0);
  *plan.add_chains() = plan.chains(0);
  plan.mutable_chains(1)->set_first_stage(1);
  plan.mutable_stages(1)->set_id(1);
  plan.mutable_stages(1)->set_ranks(0, 1);
  plan.mutable_stages(1)->set_sharded(true);
  EXPECT_THAT(error(plan), HasSubstr("stage 1 is sharded, but stage 0 holds some of its layers"));
}

}  // namespace
}  // namespace dpipe
