#include <string>
#include <utility>
#include <vector>

#include "core/nn/model.h"
#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::nn {
namespace {

using ::testing::HasSubstr;

struct Options {
  int64_t rows = 3;  // of the images: models of the same structure may differ only in this
  int64_t hidden = 8;
  std::string second_layer = "second";
  LayerKind second_kind = LayerKind::kTrainable;
  bool skip = true;
  std::string source_input = "code";
};

// An encoder [rows, 4] -> [rows, 4], and a backbone of two layers with or without a skip.
Model Make(const Options& options) {
  ProgramBuilder encoder("encoder");
  const ValueId pixels = encoder.AddInput("pixels", {Shape{options.rows, 4}, Element::kCompute});
  encoder.BeginLayer("encode", LayerKind::kFrozen);
  encoder.MarkOutput(AddLinear(&encoder, "encode", pixels, {4}), "code");

  ProgramBuilder backbone("backbone");
  const ValueId code =
      backbone.AddInput(options.source_input, {Shape{options.rows, 4}, Element::kCompute});
  backbone.BeginLayer("first", LayerKind::kTrainable);
  const ValueId x = AddLinear(&backbone, "first", code, {options.hidden});
  backbone.BeginLayer(options.second_layer, options.second_kind);
  const ValueId y = AddActivation(&backbone, x, ops::Activation::kSilu);
  const ValueId sum = AddSum(&backbone, y, options.skip ? x : y);
  backbone.MarkOutput(AddLinear(&backbone, "out", sum, {1}), "loss");

  std::vector<Component> components;
  components.push_back({"encoder", false, encoder.Build(), {}});
  components.push_back(
      {"backbone", true, backbone.Build(), {{options.source_input, {"encoder", "code"}}}});
  return Model::Create("m", std::move(components)).value();
}

std::string DifferenceTo(const Options& options) {
  return std::string(CheckSameStructure(Make({}), Make(options)).message());
}

TEST(SameStructureTest, SizesMayDiffer) {
  Options taller;
  taller.rows = 7;
  EXPECT_EQ(DifferenceTo(taller), "");
}

TEST(SameStructureTest, TheFirstDifferenceIsNamed) {
  Options other;
  other.hidden = 6;
  EXPECT_THAT(DifferenceTo(other), HasSubstr("component backbone, parameter 0 is 'first.weight' "
                                             "[8, 4] in one and 'first.weight' [6, 4]"));
  other = {};
  other.second_layer = "last";
  EXPECT_THAT(DifferenceTo(other), HasSubstr("component backbone, layer 1 is 'second'"));
  other = {};
  other.second_kind = LayerKind::kFrozenWithGradient;
  EXPECT_THAT(DifferenceTo(other), HasSubstr("'second', frozen_with_gradient"));
  other = {};
  other.skip = false;
  EXPECT_THAT(DifferenceTo(other), HasSubstr("component backbone, value 1 is"));
  other = {};
  other.source_input = "latents";
  EXPECT_THAT(DifferenceTo(other),
              HasSubstr("component 1 is 'backbone', a backbone, code from encoder.code in one and "
                        "'backbone', a backbone, latents from encoder.code"));
}

TEST(SameStructureTest, AnotherNumberOfComponentsIsNamed) {
  ProgramBuilder builder("backbone");
  const ValueId x = builder.AddInput("x", {Shape{4}, Element::kCompute});
  builder.BeginLayer("a", LayerKind::kTrainable);
  builder.MarkOutput(AddLinear(&builder, "a", x, {1}), "loss");
  std::vector<Component> components;
  components.push_back({"backbone", true, builder.Build(), {}});
  const Model one = Model::Create("m", std::move(components)).value();
  EXPECT_THAT(std::string(CheckSameStructure(Make({}), one).message()),
              HasSubstr("the number of components is 2 in one and 1 in the other"));
}

}  // namespace
}  // namespace dpipe::nn
