#include "core/nn/model.h"

#include <utility>

#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::nn {
namespace {

using ::testing::HasSubstr;

// One linear layer from `input` [width_in] to `output` [width_out].
Program Chain(const std::string& name, const std::string& input, int64_t width_in,
              const std::string& output, int64_t width_out, LayerKind kind) {
  ProgramBuilder builder(name);
  const ValueId x = builder.AddInput(input, {Shape{width_in}, Element::kCompute});
  builder.BeginLayer(name, kind);
  LinearSpec spec;
  spec.out = width_out;
  builder.MarkOutput(AddLinear(&builder, name, x, spec), output);
  return builder.Build();
}

std::vector<Component> TwoComponents(const std::string& source, const std::string& output,
                                     int64_t width) {
  std::vector<Component> components;
  components.push_back(
      {"encoder", false, Chain("encoder", "pixels", 4, "code", 8, LayerKind::kFrozen), {}});
  components.push_back({"backbone",
                        true,
                        Chain("backbone", "code", width, "loss", 1, LayerKind::kTrainable),
                        {{"code", {source, output}}}});
  return components;
}

TEST(ModelTest, ComponentsFeedOneAnother) {
  const auto model = Model::Create("m", TwoComponents("encoder", "code", 8));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->backbone_index(), 1);
  EXPECT_EQ(model->FindComponent("encoder"), 0);
  EXPECT_EQ(model->FindComponent("decoder"), -1);
}

TEST(ModelTest, WrongSourcesAreNamed) {
  EXPECT_THAT(std::string(Model::Create("m", TwoComponents("vae", "code", 8)).status().message()),
              HasSubstr("component backbone, input code: source vae is not among"));
  EXPECT_THAT(std::string(Model::Create("m", TwoComponents("encoder", "x", 8)).status().message()),
              HasSubstr("encoder has no output x"));
  EXPECT_THAT(
      std::string(Model::Create("m", TwoComponents("encoder", "code", 6)).status().message()),
      HasSubstr("needs [6], but encoder gives [8]"));
}

TEST(ModelTest, BackbonesAreFedByFrozenComponentsOnly) {
  auto components = TwoComponents("encoder", "code", 8);
  components[1].is_backbone = false;
  EXPECT_THAT(std::string(Model::Create("m", std::move(components)).status().message()),
              HasSubstr("no backbone"));
  components = TwoComponents("encoder", "code", 8);
  components[0].is_backbone = true;
  EXPECT_THAT(std::string(Model::Create("m", std::move(components)).status().message()),
              HasSubstr("source encoder is a backbone"));
}

Component Backbone(const std::string& name, const std::string& layer) {
  return {name, true, Chain(layer, "x", 4, "loss", 1, LayerKind::kTrainable), {}};
}

TEST(ModelTest, SeveralBackbonesHaveParametersOfTheirOwn) {
  std::vector<Component> components;
  components.push_back(Backbone("base", "a"));
  components.push_back(Backbone("super", "b"));
  const auto model = Model::Create("m", std::move(components));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->backbones(), std::vector<int>({0, 1}));
  EXPECT_EQ(model->BackboneNumber(1), 1);
  EXPECT_EQ(model->component(1).program.value(model->component(1).loss()).name, "loss");
  components.clear();
  components.push_back(Backbone("base", "a"));
  components.push_back(Backbone("super", "a"));
  EXPECT_THAT(std::string(Model::Create("m", std::move(components)).status().message()),
              HasSubstr("parameter a.weight is in two backbones, base and super"));
}

// Maps x and the last pass's estimate, both [4], to an estimate and a loss.
Component Estimator(const std::string& input, const std::string& output, bool detached) {
  ProgramBuilder builder("backbone");
  const ValueId x = builder.AddInput("x", {Shape{4}, Element::kCompute});
  const ValueId last = builder.AddInput("last", {Shape{4}, Element::kCompute});
  builder.BeginLayer("a", LayerKind::kTrainable);
  const ValueId y = AddLinear(&builder, "a", AddSum(&builder, x, last), {4});
  if (detached) builder.MarkOutput(AddDetach(&builder, y), "estimate");
  builder.BeginLayer("b", LayerKind::kTrainable);
  builder.MarkOutput(AddLinear(&builder, "b", y, {1}), "loss");
  return {"backbone", true, builder.Build(), {}, {input, output}};
}

TEST(ModelTest, SelfConditioningIsDeclared) {
  const auto create = [](const std::string& input, const std::string& output, bool detached) {
    std::vector<Component> components;
    components.push_back(Estimator(input, output, detached));
    return Model::Create("m", std::move(components));
  };
  const auto model = create("last", "estimate", true);
  ASSERT_TRUE(model.ok()) << model.status();
  const Component& backbone = model->backbone();
  EXPECT_EQ(backbone.program.value(backbone.loss()).name, "loss");
  EXPECT_THAT(std::string(create("first", "estimate", true).status().message()),
              HasSubstr("no input 'first' that nothing else feeds"));
  EXPECT_THAT(std::string(create("last", "loss", true).status().message()),
              HasSubstr("no output 'loss' without a gradient"));
  EXPECT_THAT(std::string(create("", "", true).status().message()), HasSubstr("has 2 outputs"));
  EXPECT_TRUE(create("", "", false).ok());
}

}  // namespace
}  // namespace dpipe::nn
