#include "core/train/optimizer/adamw_optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/nn/nodes/product_nodes.h"
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
  // Return the first element of the weight (with decay) and of the bias (without).
  float Weight() const {
    return *parameters_.weight(parameters_.trainable_ids()[0]).master().data<float>();
  }
  float Bias() const {
    return *parameters_.weight(parameters_.trainable_ids()[1]).master().data<float>();
  }

  // Returns the averages' elements, by parameter.
  static std::map<std::string, std::vector<float>> Averages(StepOptimizer* optimizer) {
    std::map<std::string, std::vector<float>> averages;
    for (const StateTensor& state : optimizer->State(kAverageKind)) {
      EXPECT_EQ(state.kind, kAverageKind);
      const absl::Span<const float> values = state.part.span<float>();
      averages[state.parameter].assign(values.begin(), values.end());
    }
    return averages;
  }

  AdamWOptions options_;
  nn::Program program_;
  nn::ParameterSet parameters_;
};

// Adam's first update is the learning rate in the gradient's direction, for any size of gradient.
TEST_F(AdamWOptimizerTest, DecaysWeightsButNotBiases) {
  const auto optimizer = AdamWFactory(options_)(parameters_);
  ASSERT_TRUE(optimizer->Step(0, /*ends_step=*/true, /*global_norm=*/0.5, &parameters_).ok());
  EXPECT_NEAR(Weight(), 1.0f * (1 - 0.1f * 0.5f) - 0.1f, 1e-6);
  EXPECT_NEAR(Bias(), 1.0f - 0.1f, 1e-6);
}

// The moments see clipped gradients: after a clipped and an unclipped step of gradients g and h,
// the update is that of Adam on (scale g, h), which differs from (g, h).
TEST_F(AdamWOptimizerTest, ClipsByTheGlobalNorm) {
  options_.adamw.weight_decay = 0;
  const auto optimizer = AdamWFactory(options_)(parameters_);
  ASSERT_TRUE(optimizer->Step(0, /*ends_step=*/true, /*global_norm=*/5.0, &parameters_)
                  .ok());  // scaled by 1/5
  SetAll(1.0f, -0.25f);
  ASSERT_TRUE(optimizer->Step(1, /*ends_step=*/true, /*global_norm=*/0.5, &parameters_)
                  .ok());  // not scaled
  const double g = 0.25 / 5, h = -0.25, b1 = 0.9, b2 = 0.999;
  const double m = (b1 * (1 - b1) * g + (1 - b1) * h) / (1 - b1 * b1);
  const double v = (b2 * (1 - b2) * g * g + (1 - b2) * h * h) / (1 - b2 * b2);
  EXPECT_NEAR(Bias(), 1.0 - 0.1 * m / std::sqrt(v), 1e-5);
}

TEST_F(AdamWOptimizerTest, ADivergedNormIsAnError) {
  const auto optimizer = AdamWFactory(options_)(parameters_);
  const absl::Status status = optimizer->Step(0, /*ends_step=*/true, std::nan(""), &parameters_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("nan"));
  EXPECT_EQ(Weight(), 1.0f) << "weights are unchanged";
}

TEST_F(AdamWOptimizerTest, KeepsAMovingAverage) {
  options_.ema_decay = 0.9;
  const auto optimizer = AdamWFactory(options_)(parameters_);
  ASSERT_TRUE(optimizer->Step(0, /*ends_step=*/true, 0.5, &parameters_).ok());
  const auto averages = Averages(optimizer.get());
  ASSERT_EQ(averages.size(), 2u);
  // At step 0 the weight of the old average is min(0.9, 1 / 10).
  EXPECT_NEAR(averages.at("layer.bias")[0], 0.1f * 1.0f + 0.9f * Bias(), 1e-6);
}

// Schedules count steps; a step may have several updates.
TEST_F(AdamWOptimizerTest, UpdatesWithinAStepHaveItsLearningRateAndOneAverage) {
  options_.adamw.weight_decay = 0;
  options_.learning_rate.warmup_steps = 4;
  options_.ema_decay = 0.9;
  const auto optimizer = AdamWFactory(options_)(parameters_);
  // Equal gradients move a weight by the learning rate: a quarter of the peak.
  for (int update = 1; update <= 3; ++update) {
    ASSERT_TRUE(optimizer->Step(0, /*ends_step=*/update == 3, 0.5, &parameters_).ok());
    EXPECT_NEAR(Bias(), 1.0f - update * 0.1f / 4, 1e-5);
    const float average = Averages(optimizer.get()).at("layer.bias")[0];
    EXPECT_NEAR(average, update < 3 ? 1.0f : 0.1f * 1.0f + 0.9f * Bias(), 1e-6);
  }
  EXPECT_EQ(optimizer->num_updates(), 3);
}

// Averages of shards make up the average of the whole.
TEST_F(AdamWOptimizerTest, KeepsAMovingAverageOfShards) {
  options_.ema_decay = 0.9;
  const auto whole = AdamWFactory(options_)(parameters_);
  std::map<std::string, Tensor> initial;
  parameters_.Collect(&initial);
  const nn::Program& program = parameters_.program();
  std::map<std::string, std::vector<float>> actual;
  for (int index : {0, 1}) {
    const auto shards =
        nn::ParameterSet::OfShards(program, program.all_layers(), parameters_.device(), {index, 2});
    ASSERT_TRUE(shards->Load(initial).ok());
    for (nn::ParameterId id : shards->trainable_ids()) {
      shards->grad(id)->CopyFrom(shards->part(id).Of(*parameters_.grad(id)));
    }
    const auto optimizer = AdamWFactory(options_)(*shards);
    ASSERT_TRUE(optimizer->Step(0, /*ends_step=*/true, 0.5, shards.get()).ok());
    for (const auto& [name, values] : Averages(optimizer.get())) {
      actual[name].insert(actual[name].end(), values.begin(), values.end());
    }
  }
  ASSERT_TRUE(whole->Step(0, /*ends_step=*/true, 0.5, &parameters_).ok());
  EXPECT_EQ(actual, Averages(whole.get()));
}

TEST(EmaDecayTest, StartsLateAndUpdatesNowAndThen) {
  AdamWOptions options;
  options.ema_decay = 0.9;
  EXPECT_EQ(EmaDecayAt(options, 0), 0.1);
  EXPECT_EQ(EmaDecayAt(options, 8), 0.5);
  EXPECT_EQ(EmaDecayAt(options, 1000), 0.9);
  options.ema_every = 5;
  options.ema_start = 10;
  for (int64_t step : {0, 3, 10, 13}) EXPECT_EQ(EmaDecayAt(options, step), 1) << "none at " << step;
  EXPECT_EQ(EmaDecayAt(options, 4), 0) << "the weights themselves";
  EXPECT_EQ(EmaDecayAt(options, 14), 0.1);
  EXPECT_EQ(EmaDecayAt(options, 19), 2.0 / 11);
}

// Least squares over 512 weights whose inputs have scales from 1e-3 to 1, so that moments of very
// different sizes share a block.
class LeastSquares {
 public:
  static constexpr int kSize = 512;

  explicit LeastSquares(MomentsFormat format)
      : program_(Build()), parameters_(program_, program_.all_layers(), Device::Cpu()) {
    AdamWOptions options;
    options.learning_rate.peak = 0.02f;
    options.adamw.weight_decay = 0;
    options.moments = format;
    options.moments_block = 256;
    optimizer_ = AdamWFactory(options)(parameters_);
    for (int i = 0; i < kSize; ++i) scale_[i] = std::pow(10.0, -3.0 * i / kSize);
  }

  static nn::Program Build() {
    nn::ProgramBuilder builder("layer");
    const ValueId x = builder.AddInput("x", {Shape{kSize}, nn::Element::kCompute});
    builder.BeginLayer("layer", nn::LayerKind::kTrainable);
    nn::LinearSpec spec;
    spec.out = 1;
    spec.bias = false;
    builder.MarkOutput(AddLinear(&builder, "layer", x, spec), "y");
    return builder.Build();
  }

  absl::Span<float> weights() {
    return parameters_.weight(parameters_.trainable_ids()[0]).master().span<float>();
  }
  // Returns the loss: each weight's error is weighted by the square of its input's scale.
  double Loss() {
    double loss = 0;
    for (int i = 0; i < kSize; ++i) {
      const double error = scale_[i] * (weights()[i] - Target(i));
      loss += error * error / 2;
    }
    return loss;
  }
  void Run(int first, int last) {
    for (int step = first; step < last; ++step) {
      absl::Span<float> grad = parameters_.grad(parameters_.trainable_ids()[0])->span<float>();
      for (int i = 0; i < kSize; ++i) {
        grad[i] = scale_[i] * scale_[i] * (weights()[i] - Target(i));
      }
      ASSERT_TRUE(optimizer_->Step(step, /*ends_step=*/true, -1, &parameters_).ok());
    }
  }
  StepOptimizer& optimizer() { return *optimizer_; }

 private:
  static double Target(int i) { return std::sin(i); }

  nn::Program program_;
  nn::ParameterSet parameters_;
  std::unique_ptr<StepOptimizer> optimizer_;
  double scale_[kSize];
};

TEST(AdamWMomentsTest, SizeMatchesThePlannedBytes) {
  AdamWOptions options;
  EXPECT_EQ(OptimizerBytesPerParameter(options), 8);
  const Tensor parameter = Tensor::Zeros(Device::Cpu(), {4096}, DType::kF32);
  for (MomentsFormat format : {MomentsFormat::kFp32, MomentsFormat::kInt8}) {
    options.moments = format;
    options.moments_block = 128;
    options.ema_decay = 0;
    EXPECT_EQ(OptimizerBytesPerParameter(options) * parameter.num_elements(),
              AdamWMoments(format, options.moments_block, parameter).size_bytes());
    const double without = OptimizerBytesPerParameter(options);
    options.ema_decay = 0.9;
    EXPECT_EQ(OptimizerBytesPerParameter(options), without + 4);
  }
}

TEST(AdamWMomentsTest, EightBitsTrainAsWellAsFp32) {
  LeastSquares whole(MomentsFormat::kFp32), quantized(MomentsFormat::kInt8);
  const double initial = whole.Loss();
  for (int steps : {0, 20, 40, 80}) {
    whole.Run(steps, std::max(20, 2 * steps));
    quantized.Run(steps, std::max(20, 2 * steps));
    EXPECT_NEAR(quantized.Loss(), whole.Loss(), 0.005 * initial)
        << "after " << std::max(20, 2 * steps);
  }
  EXPECT_LT(whole.Loss(), initial / 50);
  EXPECT_LT(quantized.Loss(), initial / 50);
  EXPECT_NE(whole.Loss(), quantized.Loss());
}

// The same bits each time, also if saved and restored in between.
TEST(AdamWMomentsTest, EightBitsAreReproducibleAndResumable) {
  LeastSquares straight(MomentsFormat::kInt8), stopped(MomentsFormat::kInt8),
      resumed(MomentsFormat::kInt8);
  straight.Run(0, 40);
  stopped.Run(0, 20);
  const std::vector<StateTensor> saved = stopped.optimizer().State(/*kind=*/"");
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].kind, "m");
  EXPECT_EQ(saved[1].kind, "root_v");
  const std::vector<StateTensor> target = resumed.optimizer().State(/*kind=*/"");
  for (size_t i = 0; i < saved.size(); ++i) Tensor(target[i].part).CopyFrom(saved[i].part);
  std::copy(stopped.weights().begin(), stopped.weights().end(), resumed.weights().begin());
  ASSERT_TRUE(resumed.optimizer().StateRestored(20).ok());
  resumed.Run(20, 40);
  EXPECT_TRUE(
      std::equal(straight.weights().begin(), straight.weights().end(), resumed.weights().begin()));
}

TEST(AdamWMomentsTest, TakeAQuarterOfTheMemory) {
  const Tensor parameter = Tensor::Zeros(Device::Cpu(), {100, 1024}, DType::kF32);
  EXPECT_EQ(AdamWMoments(MomentsFormat::kFp32, 256, parameter).size_bytes(), 8 * 102400);
  EXPECT_EQ(AdamWMoments(MomentsFormat::kInt8, 256, parameter).size_bytes(),
            2 * (102400 + 400 * 4));
}

}  // namespace

}  // namespace dpipe
