#include "models/diffusion/noising.h"

#include <cmath>

#include "core/ops/testing/op_testing.h"

namespace dpipe::diffusion {
namespace {

using ops::ExpectClose;
using ops::ExpectSameBits;
using ops::RandomTensor;
using ops::Values;

// Three timesteps with abar = 0.9, 0.9 * 0.7 = 0.63 and 0.63 * 0.5 = 0.315.
NoiseSchedule ThreeSteps(PredictionType type) {
  NoiseScheduleOptions options;
  options.num_train_timesteps = 3;
  options.beta_schedule = BetaSchedule::kLinear;
  options.beta_start = 0.1;
  options.beta_end = 0.5;
  options.prediction_type = type;
  return *NoiseSchedule::Create(options);
}

class NoisingTest : public ::testing::Test {
 protected:
  std::shared_ptr<Device> cpu_ = Device::Cpu();
  Tensor x0_ = RandomTensor(cpu_, {3, 4, 5, 2}, DType::kF32, 1);
  Tensor noise_ = RandomTensor(cpu_, {3, 4, 5, 2}, DType::kF32, 2);
  Tensor t_ = Tensor::FromHost<int32_t>(cpu_, {3}, {2, 0, 1});
};

TEST_F(NoisingTest, MixesByTheSamplesTimestep) {
  const std::vector<double> x_t =
      Values(*AddNoise(ThreeSteps(PredictionType::kEpsilon), x0_, noise_, t_, DType::kF32));
  const std::vector<double> x0 = Values(x0_), noise = Values(noise_);
  const double abar[] = {0.315, 0.9, 0.63};
  for (size_t i = 0; i < x_t.size(); ++i) {
    const double a = abar[i / 40];
    ASSERT_NEAR(x_t[i], std::sqrt(a) * x0[i] + std::sqrt(1 - a) * noise[i], 1e-6) << i;
  }
}

TEST_F(NoisingTest, SampleDoesNotDependOnItsNeighbours) {
  const NoiseSchedule schedule = ThreeSteps(PredictionType::kV);
  ExpectSameBits(
      *AddNoise(schedule, x0_.Slice(1, 2), noise_.Slice(1, 2), t_.Slice(1, 2), DType::kBf16),
      AddNoise(schedule, x0_, noise_, t_, DType::kBf16)->Slice(1, 2));
  ExpectSameBits(*TrainingTarget(schedule, x0_.Slice(1, 2), noise_.Slice(1, 2), t_.Slice(1, 2)),
                 TrainingTarget(schedule, x0_, noise_, t_)->Slice(1, 2));
}

TEST_F(NoisingTest, VelocityByHand) {
  const Tensor v = *TrainingTarget(ThreeSteps(PredictionType::kV), x0_, noise_, t_);
  const double expected = std::sqrt(0.315) * Values(noise_)[7] - std::sqrt(0.685) * Values(x0_)[7];
  EXPECT_NEAR(Values(v)[7], expected, 1e-6);
}

// An exact prediction of the target yields x0 and the noise, for every prediction type.
TEST_F(NoisingTest, PerfectPredictionGivesBackBoth) {
  for (PredictionType type :
       {PredictionType::kEpsilon, PredictionType::kV, PredictionType::kSample}) {
    const NoiseSchedule schedule = ThreeSteps(type);
    const Tensor x_t = *AddNoise(schedule, x0_, noise_, t_, DType::kF32);
    const Tensor target = *TrainingTarget(schedule, x0_, noise_, t_);
    // Rounding of x_t, divided by a root of at least sqrt(0.1).
    ExpectClose(*PredictedX0(schedule, x_t, target, t_), x0_, {1e-6, 2e-6});
    ExpectClose(*PredictedNoise(schedule, x_t, target, t_), noise_, {1e-6, 2e-6});
  }
}

TEST_F(NoisingTest, MinSnrWeights) {
  const double snr[] = {0.315 / 0.685, 9, 0.63 / 0.37};
  const std::vector<double> epsilon =
      Values(*MinSnrWeights(ThreeSteps(PredictionType::kEpsilon), 1.5, t_));
  const std::vector<double> v = Values(*MinSnrWeights(ThreeSteps(PredictionType::kV), 1.5, t_));
  const std::vector<double> sample =
      Values(*MinSnrWeights(ThreeSteps(PredictionType::kSample), 1.5, t_));
  for (int b = 0; b < 3; ++b) {
    const double capped = std::min(snr[b], 1.5);
    EXPECT_NEAR(epsilon[b], capped / snr[b], 1e-6);
    EXPECT_NEAR(v[b], capped / (snr[b] + 1), 1e-6);
    EXPECT_NEAR(sample[b], capped, 1e-6);
  }
  EXPECT_FALSE(MinSnrWeights(ThreeSteps(PredictionType::kV), 0, t_).ok());
}

TEST_F(NoisingTest, PureNoiseDoesNotDetermineX0) {
  NoiseScheduleOptions options;
  options.rescale_zero_terminal_snr = true;
  const NoiseSchedule schedule = *NoiseSchedule::Create(options);
  const Tensor last = Tensor::FromHost<int32_t>(cpu_, {1}, {999});
  const Tensor x = x0_.Slice(0, 1);
  EXPECT_EQ(PredictedX0(schedule, x, x, last).status().message(),
            "sample 0 is at a timestep whose x_t does not depend on x0");
  EXPECT_EQ(Values(*MinSnrWeights(schedule, 5, last)), std::vector<double>{1});
  options.prediction_type = PredictionType::kV;
  const NoiseSchedule v = *NoiseSchedule::Create(options);
  EXPECT_TRUE(PredictedX0(v, x, x, last).ok());
}

TEST_F(NoisingTest, TimestepOutsideTheScheduleIsAnError) {
  const NoiseSchedule schedule = ThreeSteps(PredictionType::kV);
  for (int bad : {-1, 3}) {
    const Tensor t = Tensor::FromHost<int32_t>(cpu_, {3}, {0, bad, 0});
    EXPECT_EQ(AddNoise(schedule, x0_, noise_, t, DType::kF32).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(MinSnrWeights(schedule, 5, t).ok());
  }
}

}  // namespace
}  // namespace dpipe::diffusion
