#include "core/train/adamw_optimizer.h"

#include <cmath>
#include <memory>

#include "core/nn/nodes/linear_node.h"
#include "core/nn/program_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

nn::Program OneLayer() {
  nn::ProgramBuilder builder("layer");
  const ValueId x = builder.AddInput("x", {Shape{2}, nn::Element::kCompute});
  builder.BeginLayer("layer", nn::LayerKind::kTrainable);
  nn::LinearSpec spec;
  spec.out = 1;
  builder.MarkOutput(AddLinear(&builder, "layer", x, spec), "y");
  return builder.Build();
}

class AdamWOptimizerTest : public ::testing::Test {
 protected:
  AdamWOptimizerTest()
      : program_(OneLayer()), parameters_(program_, program_.all_layers(), Device::Cpu()) {
    options_.learning_rate.peak = 0.1f;
    options_.adamw.weight_decay = 0.5f;
    options_.max_grad_norm = 1.0;
    SetAll(1.0f, 0.25f);
  }

  void SetAll(float value, float grad) {
    for (nn::ParameterId id : parameters_.trainable_ids()) {
      Tensor master = parameters_.weight(id).master();
      for (float& x : master.span<float>()) x = value;
      for (float& g : parameters_.grad(id)->span<float>()) g = grad;
    }
  }
  // The first element of the weight (decayed) and of the bias (not).
  float Weight() const {
    return *parameters_.weight(parameters_.trainable_ids()[0]).master().data<float>();
  }
  float Bias() const {
    return *parameters_.weight(parameters_.trainable_ids()[1]).master().data<float>();
  }

  AdamWOptions options_;
  nn::Program program_;
  nn::ParameterSet parameters_;
};

// Adam's first update is the learning rate in the gradient's direction, whatever the gradient's
// size.
TEST_F(AdamWOptimizerTest, DecaysWeightsButNotBiases) {
  const auto optimizer = AdamWFactory(options_, nullptr)(parameters_);
  ASSERT_TRUE(optimizer->Step(0, /*global_norm=*/0.5, &parameters_).ok());
  EXPECT_NEAR(Weight(), 1.0f * (1 - 0.1f * 0.5f) - 0.1f, 1e-6);
  EXPECT_NEAR(Bias(), 1.0f - 0.1f, 1e-6);
}

// The moments see clipped gradients: after a clipped and an unclipped step of gradients g and h,
// the update is that of Adam on (scale g, h), which differs from (g, h).
TEST_F(AdamWOptimizerTest, ClipsByTheGlobalNorm) {
  options_.adamw.weight_decay = 0;
  const auto optimizer = AdamWFactory(options_, nullptr)(parameters_);
  ASSERT_TRUE(optimizer->Step(0, /*global_norm=*/5.0, &parameters_).ok());  // scaled by 1/5
  SetAll(1.0f, -0.25f);
  ASSERT_TRUE(optimizer->Step(1, /*global_norm=*/0.5, &parameters_).ok());  // not scaled
  const double g = 0.25 / 5, h = -0.25, b1 = 0.9, b2 = 0.999;
  const double m = (b1 * (1 - b1) * g + (1 - b1) * h) / (1 - b1 * b1);
  const double v = (b2 * (1 - b2) * g * g + (1 - b2) * h * h) / (1 - b2 * b2);
  EXPECT_NEAR(Bias(), 1.0 - 0.1 * m / std::sqrt(v), 1e-5);
}

TEST_F(AdamWOptimizerTest, ADivergedNormIsAnError) {
  const auto optimizer = AdamWFactory(options_, nullptr)(parameters_);
  const absl::Status status = optimizer->Step(0, std::nan(""), &parameters_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("nan"));
  EXPECT_EQ(Weight(), 1.0f) << "weights are left as they were";
}

TEST_F(AdamWOptimizerTest, KeepsAMovingAverage) {
  options_.ema_decay = 0.9;
  EmaWeights ema;
  const auto optimizer = AdamWFactory(options_, &ema)(parameters_);
  ASSERT_TRUE(optimizer->Step(0, 0.5, &parameters_).ok());
  const auto averages = ema.Collect();
  ASSERT_EQ(averages.size(), 2u);
  // At step 0 the old average weighs min(0.9, 1 / 10).
  EXPECT_NEAR(*averages.at("layer.bias").data<float>(), 0.1f * 1.0f + 0.9f * Bias(), 1e-6);
}

// Shards in any order make the averages of the whole.
TEST_F(AdamWOptimizerTest, KeepsAMovingAverageOfShards) {
  options_.ema_decay = 0.9;
  EmaWeights whole_ema, ema;
  const auto whole = AdamWFactory(options_, &whole_ema)(parameters_);
  std::map<std::string, Tensor> initial;
  parameters_.Collect(&initial);
  const nn::Program& program = parameters_.program();
  for (int index : {1, 0}) {
    const auto shards =
        nn::ParameterSet::OfShards(program, program.all_layers(), parameters_.device(), {index, 2});
    ASSERT_TRUE(shards->Load(initial).ok());
    for (nn::ParameterId id : shards->trainable_ids()) {
      shards->grad(id)->CopyFrom(shards->part(id).Of(*parameters_.grad(id)));
    }
    ASSERT_TRUE(AdamWFactory(options_, &ema)(*shards)->Step(0, 0.5, shards.get()).ok());
  }
  ASSERT_TRUE(whole->Step(0, 0.5, &parameters_).ok());
  const auto expected = whole_ema.Collect(), actual = ema.Collect();
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(actual.at(name).shape(), tensor.shape());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      EXPECT_EQ(actual.at(name).data<float>()[i], tensor.data<float>()[i]) << name;
    }
  }
}

}  // namespace
}  // namespace dpipe
