#include "core/profile/component_work.h"

#include <utility>

#include "core/nn/nodes/activation_nodes.h"
#include "core/nn/nodes/attention_node.h"
#include "core/nn/nodes/norm_nodes.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "core/nn/program_builder.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using nn::Element;
using nn::LayerKind;
using roofline::OpClass;
using roofline::OpWork;

roofline::ComponentWork WorkOfProgram(nn::Program program) {
  return WorkOf({"c", true, std::move(program), {}});
}

TEST(ComponentWorkTest, ConvolutionWithAddend) {
  nn::ProgramBuilder builder("c");
  const ValueId x = builder.AddInput("x", {Shape({4, 6, 8}), Element::kCompute});
  const ValueId add = builder.AddInput("add", {Shape({16}), Element::kCompute});
  builder.BeginLayer("a", LayerKind::kTrainable);
  nn::Conv2dSpec strided{16};
  strided.params = ops::Conv2dSymmetric(/*stride=*/2, /*padding=*/1);
  const ValueId h = nn::AddConv2d(&builder, "a", x, strided);  // [2, 3, 16]
  builder.BeginLayer("b", LayerKind::kFrozenWithGradient);
  nn::Conv2dSpec added{16};
  added.addend = add;
  builder.MarkOutput(nn::AddConv2d(&builder, "b", h, added), "y");
  const roofline::ComponentWork work = WorkOfProgram(builder.Build());

  ASSERT_EQ(work.ops.size(), 2u);
  ASSERT_EQ(work.ops[0].size(), 1u);
  const OpWork& a = work.ops[0][0];
  EXPECT_EQ(a.op_class, OpClass::kConvolution);
  EXPECT_EQ(a.forward.macs, 2 * 3 * 16 * 8 * 9);
  EXPECT_EQ(a.forward.bytes, 2 * (4 * 6 * 8 + 2 * 3 * 16));
  EXPECT_EQ(a.forward.fixed_bytes, 2 * 16 * 8 * 9);
  EXPECT_EQ(a.forward.kernels, 1);
  EXPECT_EQ(a.input_grad.kernels, 0);  // nothing upstream is trainable
  EXPECT_EQ(a.weight_grad.macs, a.forward.macs);
  EXPECT_EQ(a.weight_grad.bytes, 2 * (4 * 6 * 8 + 2 * 2 * 3 * 16));  // the bias reads dy again
  EXPECT_EQ(a.weight_grad.fixed_bytes, 8 * 16 * 8 * 9);

  ASSERT_EQ(work.ops[1].size(), 2u);
  EXPECT_EQ(work.ops[1][0].input_grad.macs, 2 * 3 * 16 * 16 * 9);
  EXPECT_EQ(work.ops[1][0].weight_grad.kernels, 0);
  const OpWork& sum = work.ops[1][1];
  EXPECT_EQ(sum.op_class, OpClass::kMemory);
  EXPECT_EQ(sum.forward.bytes, 2 * (2 * 2 * 3 * 16 + 16));
  EXPECT_EQ(sum.input_grad.bytes, 2 * (2 * 2 * 3 * 16));  // the addend needs no gradient

  EXPECT_EQ(work.profile.layers(0).saved_bytes_per_sample(), 2 * 4 * 6 * 8);
  EXPECT_EQ(work.profile.layers(1).saved_bytes_per_sample(), 0);
  EXPECT_EQ(work.profile.layers(0).trainable_parameter_bytes(), 4 * (16 * 8 * 9 + 16));
}

// Cross-attention after a norm, with a context that needs no gradient.
TEST(ComponentWorkTest, Attention) {
  nn::ProgramBuilder builder("c");
  const ValueId x = builder.AddInput("x", {Shape({10, 8}), Element::kCompute});
  const ValueId context = builder.AddInput("context", {Shape({3, 8}), Element::kCompute});
  builder.BeginLayer("a", LayerKind::kTrainable);
  const ValueId q = nn::AddLinear(&builder, "q", nn::AddLayerNorm(&builder, "n", x, {}), {8});
  const ValueId to_queries = nn::AddAttention(&builder, q, context, context, 2, false);
  const ValueId k = nn::AddLinear(&builder, "k", context, {8});
  builder.MarkOutput(nn::AddAttention(&builder, to_queries, k, k, 2, false), "y");
  const roofline::ComponentWork work = WorkOfProgram(builder.Build());
  ASSERT_EQ(work.ops[0].size(), 5u);
  EXPECT_EQ(work.ops[0][0].weight_grad.bytes, 2 * 2 * 10 * 8);  // x needs no gradient
  EXPECT_EQ(work.ops[0][0].input_grad.kernels, 0);
  EXPECT_EQ(work.ops[0][2].op_class, OpClass::kAttention);
  EXPECT_EQ(work.ops[0][2].head_size, 4);
  EXPECT_EQ(work.ops[0][2].forward.macs, 2 * 10 * 3 * 8);
  EXPECT_EQ(work.ops[0][2].input_grad.macs, 3 * 10 * 3 * 8);
  EXPECT_EQ(work.ops[0][4].input_grad.macs, 5 * 10 * 3 * 8);
  EXPECT_EQ(work.ops[0][4].forward.bytes, 2 * (10 + 3 + 3 + 10) * 8);
  // x, the norm's result, q, context, the first attention's result, k, y.
  EXPECT_EQ(work.profile.layers(0).saved_bytes_per_sample(), 2 * (5 * 10 + 2 * 3) * 8);
}

// A reshaped value has neither work nor memory of its own.
TEST(ComponentWorkTest, ViewsShareMemory) {
  nn::ProgramBuilder builder("c");
  const ValueId x = builder.AddInput("x", {Shape({6}), Element::kCompute});
  builder.BeginLayer("a", LayerKind::kTrainable);
  const ValueId h = nn::AddLinear(&builder, "h", x, {8});
  const ValueId view = nn::AddReshape(&builder, h, Shape({2, 4}));
  const ValueId s = nn::AddActivation(&builder, h, ops::Activation::kSilu);
  const ValueId t = nn::AddActivation(&builder, view, ops::Activation::kSilu);
  const ValueId sum = nn::AddSum(&builder, s, nn::AddReshape(&builder, t, Shape({8})));
  const ValueId out = nn::AddReshape(&builder, sum, Shape({4, 2}));
  builder.BeginLayer("b", LayerKind::kTrainable);
  builder.MarkOutput(nn::AddLinear(&builder, "y", out, {3}), "y");
  const roofline::ComponentWork work = WorkOfProgram(builder.Build());
  EXPECT_EQ(work.ops[0].size(), 4u);                                        // h, s, t, sum
  EXPECT_EQ(work.profile.layers(0).saved_bytes_per_sample(), 2 * (6 + 8));  // x; h for s and t
  EXPECT_EQ(work.profile.layers(0).workspace_bytes_per_sample(), 2 * (8 + 8 + 8));  // h, s, t
  EXPECT_EQ(work.profile.layers(1).saved_bytes_per_sample(), 2 * 8);
}

// A frozen linear layer of 5 x 3 weights on 4 rows, then a trained one of 3 x 2: the first has no
// backward pass, the second one for its weights alone, because nothing before it is trained.
TEST(MacsPerSampleTest, ByHand) {
  nn::ProgramBuilder frozen("encoder");
  const ValueId pixels = frozen.AddInput("pixels", {Shape({4, 5}), Element::kCompute});
  frozen.BeginLayer("in", LayerKind::kFrozen);
  frozen.MarkOutput(nn::AddLinear(&frozen, "in", pixels, {3}), "code");
  nn::ProgramBuilder trained("denoiser");
  const ValueId code = trained.AddInput("code", {Shape({4, 3}), Element::kCompute});
  trained.BeginLayer("out", LayerKind::kTrainable);
  trained.MarkOutput(nn::AddLinear(&trained, "out", code, {2}), "loss");
  std::vector<nn::Component> components;
  components.push_back({"encoder", false, frozen.Build(), {}});
  components.push_back({"denoiser", true, trained.Build(), {{"code", {"encoder", "code"}}}});
  const auto model = nn::Model::Create("two", std::move(components));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(MacsPerSample(*model, /*with_frozen=*/true), 4 * 5 * 3 + 2 * 4 * 3 * 2);
  EXPECT_EQ(MacsPerSample(*model, /*with_frozen=*/false), 2 * 4 * 3 * 2);
}

}  // namespace
}  // namespace dpipe
