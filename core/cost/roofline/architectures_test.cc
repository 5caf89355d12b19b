// Totals against published figures, and small cases by hand.
#include <cmath>

#include "core/cost/roofline/component_builder.h"
#include "core/cost/roofline/mmdit.h"
#include "core/cost/roofline/text_encoders.h"
#include "gtest/gtest.h"

namespace dpipe::roofline {
namespace {

int64_t ParameterCount(const ComponentWork& component) {
  int64_t bytes = 0;
  for (const LayerProfile& layer : component.profile.layers()) bytes += layer.parameter_bytes();
  return bytes / kMasterBytes;
}

double GigaMacs(const ComponentWork& component) {
  int64_t macs = 0;
  for (const auto& layer : component.ops) {
    for (const OpWork& op : layer) macs += op.forward.macs;
  }
  return macs / 1e9;
}

ClipTextOptions Clip(int64_t width, int num_layers) {
  ClipTextOptions options;
  options.width = width;
  options.hidden = 4 * width;
  options.num_layers = num_layers;
  return options;
}

TEST(ArchitecturesTest, ParameterCounts) {
  EXPECT_EQ(ParameterCount(ClipText(Clip(768, 12))), 123060480);
  EXPECT_EQ(ParameterCount(ClipText(Clip(1024, 23))), 340387840);
  EXPECT_EQ(ParameterCount(T5XxlEncoder(512)), 4762310656);
  EXPECT_EQ(ParameterCount(Mmdit({})), 11901408320);
}

// The total in the reference model's description, per image.
TEST(ArchitecturesTest, MultiplyAdds) {
  EXPECT_EQ(std::round(GigaMacs(ClipText(Clip(1024, 23)))), 23);  // 22.6, stated as 23
}

// A convolution and a sum, all numbers by hand.
TEST(ComponentBuilderTest, Convolution) {
  ComponentBuilder builder("c", true);
  const auto x = builder.Input("x", {4, 6, 8}, 2);
  builder.BeginLayer("a", TRAINABLE);
  const auto h = builder.Conv(x, 16, 2);  // [2, 3, 16]
  builder.BeginLayer("b", FROZEN_WITH_GRADIENT);
  builder.MarkOutput(builder.Add(builder.Conv(h, 16), h), "y");
  const ComponentWork work = builder.Build();
  ASSERT_EQ(work.ops[0].size(), 1u);
  const OpWork& a = work.ops[0][0];
  EXPECT_EQ(a.forward.macs, 2 * 3 * 16 * 8 * 9);
  EXPECT_EQ(a.forward.bytes, 2 * (4 * 6 * 8 + 2 * 3 * 16));
  EXPECT_EQ(a.forward.fixed_bytes, 2 * 16 * 8 * 9);
  EXPECT_EQ(a.input_grad.kernels, 0);  // nothing upstream learns
  EXPECT_EQ(a.weight_grad.macs, a.forward.macs);
  EXPECT_EQ(a.weight_grad.fixed_bytes, 8 * 16 * 8 * 9);
  const OpWork& b = work.ops[1][0];
  EXPECT_EQ(b.input_grad.macs, 2 * 3 * 16 * 16 * 9);
  EXPECT_EQ(b.weight_grad.kernels, 0);
  EXPECT_EQ(work.profile.layers(0).parameter_bytes(), 4 * (16 * 8 * 9 + 16));
  EXPECT_EQ(work.profile.layers(0).saved_bytes_per_sample(), 2 * 4 * 6 * 8);
  EXPECT_EQ(work.profile.layers(1).saved_bytes_per_sample(), 0);
  EXPECT_EQ(work.profile.layers(1).trainable_parameter_bytes(), 0);
  ASSERT_EQ(work.profile.values_size(), 3);  // x, h, y
  EXPECT_EQ(work.profile.values(1).bytes_per_sample(), 2 * 2 * 3 * 16);
  EXPECT_TRUE(work.profile.values(1).has_gradient());
  EXPECT_FALSE(work.profile.values(0).has_gradient());
}

TEST(ComponentBuilderTest, Attention) {
  ComponentBuilder builder("c", true);
  const auto x = builder.Input("x", {10, 8}, 2);
  const auto context = builder.Input("context", {3, 8}, 2);
  builder.BeginLayer("a", TRAINABLE);
  const auto q = builder.Linear(x, 8, false);
  builder.Attention(q, context, context);
  const auto k = builder.Linear(context, 8, false);
  builder.MarkOutput(builder.Attention(q, k, k), "y");
  const ComponentWork work = builder.Build();
  const OpWork& to_queries = work.ops[0][1];
  EXPECT_EQ(to_queries.forward.macs, 2 * 10 * 3 * 8);
  EXPECT_EQ(to_queries.input_grad.macs, 3 * 10 * 3 * 8);
  EXPECT_EQ(work.ops[0][3].input_grad.macs, 5 * 10 * 3 * 8);
  EXPECT_EQ(work.ops[0][3].forward.bytes, 2 * (10 + 3 + 3 + 10) * 8);
}

}  // namespace
}  // namespace dpipe::roofline
