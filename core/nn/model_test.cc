#include "core/nn/model.h"

#include <utility>

#include "core/nn/nodes/linear_node.h"
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
      HasSubstr("wants [6], but encoder gives [8]"));
}

TEST(ModelTest, ThereIsOneBackbone) {
  auto components = TwoComponents("encoder", "code", 8);
  components[1].is_backbone = false;
  EXPECT_THAT(std::string(Model::Create("m", std::move(components)).status().message()),
              HasSubstr("no backbone"));
  components = TwoComponents("encoder", "code", 8);
  components[0].is_backbone = true;
  EXPECT_THAT(std::string(Model::Create("m", std::move(components)).status().message()),
              HasSubstr("two backbones: encoder and backbone"));
}

}  // namespace
}  // namespace dpipe::nn
