#include "models/diffusion/sampler.h"

#include <cmath>

#include "core/ops/testing/op_testing.h"
#include "models/diffusion/draws.h"
#include "models/diffusion/noising.h"
#include "models/diffusion/samplers/samplers.h"

namespace dpipe::diffusion {
namespace {

using ops::ExpectClose;
using ops::ExpectSameBits;
using ops::RandomTensor;
using ops::Values;

NoiseSchedule Make(PredictionType type, bool end_at_one = true) {
  NoiseScheduleOptions options;
  options.prediction_type = type;
  options.set_alpha_to_one = end_at_one;
  return *NoiseSchedule::Create(options);
}

TEST(InferenceTimestepsTest, Leading) {
  EXPECT_EQ(*InferenceTimesteps(Make(PredictionType::kV), 4),
            (std::vector<double>{751, 501, 251, 1}));
  // The stride is 1000 / 3, rounded down.
  EXPECT_EQ(*InferenceTimesteps(Make(PredictionType::kV), 3), (std::vector<double>{667, 334, 1}));
}

TEST(InferenceTimestepsTest, TrailingAndLinspace) {
  NoiseScheduleOptions options;
  options.timestep_spacing = TimestepSpacing::kTrailing;
  EXPECT_EQ(*InferenceTimesteps(*NoiseSchedule::Create(options), 4),
            (std::vector<double>{999, 749, 499, 249}));
  EXPECT_EQ(*InferenceTimesteps(*NoiseSchedule::Create(options), 3),
            (std::vector<double>{999, 666, 332}));
  options.timestep_spacing = TimestepSpacing::kLinspace;
  EXPECT_EQ(*InferenceTimesteps(*NoiseSchedule::Create(options), 4),
            (std::vector<double>{999, 666, 333, 0}));
  EXPECT_EQ(*InferenceTimesteps(*NoiseSchedule::Create(options), 1), (std::vector<double>{0}));
}

// As in diffusers' schedulers, whose configurations may lack the key.
TEST(InferenceTimestepsTest, EachSamplerHasItsOwnSpacing) {
  const NoiseSchedule schedule = Make(PredictionType::kV);
  for (SamplerKind kind : {SamplerKind::kDdim, SamplerKind::kDdpm}) {
    EXPECT_EQ(*InferenceTimesteps(schedule, 4, kind), (std::vector<double>{751, 501, 251, 1}));
  }
  EXPECT_EQ(*InferenceTimesteps(schedule, 3, SamplerKind::kDpmSolver),
            (std::vector<double>{999, 666, 333}));
}

TEST(InferenceTimestepsTest, KarrasSigmasAreNotForDdimAndDdpm) {
  NoiseScheduleOptions options;
  options.timestep_spacing = TimestepSpacing::kLeading;
  const NoiseSchedule plain = *NoiseSchedule::Create(options);
  options.use_karras_sigmas = true;
  const NoiseSchedule karras = *NoiseSchedule::Create(options);
  for (SamplerKind kind : {SamplerKind::kDdim, SamplerKind::kDdpm}) {
    EXPECT_EQ(*InferenceTimesteps(karras, 4, kind), *InferenceTimesteps(plain, 4, kind));
  }
  // From the last timestep to the first, closer together near the first.
  const std::vector<double> timesteps = *InferenceTimesteps(karras, 4, SamplerKind::kDpmSolver);
  EXPECT_EQ(timesteps.front(), 999);
  EXPECT_EQ(timesteps.back(), 0);
  EXPECT_FALSE(InferenceTimesteps(karras, 1001, SamplerKind::kDpmSolver).ok());
}

TEST(InferenceTimestepsTest, ImpossibleCountsAreErrors) {
  const NoiseSchedule schedule = Make(PredictionType::kV);
  EXPECT_EQ(InferenceTimesteps(schedule, 0).status().message(),
            "sampling in 0 steps; the schedule allows 1 to 1000");
  EXPECT_FALSE(InferenceTimesteps(schedule, 1001).ok());
  EXPECT_EQ(InferenceTimesteps(schedule, 1000).status().message(),
            "sampling in 1000 steps with a steps_offset of 1 starts at timestep 1000 of 1000");
}

Tensor WholeTimesteps(const Tensor& timesteps) {
  const std::vector<double> values = Values(timesteps);
  return Tensor::FromHost<int32_t>(timesteps.device(), timesteps.shape(),
                                   std::vector<int32_t>(values.begin(), values.end()));
}

// With the ideal model of a data set of one point, every sampler must end at that point.
TEST(SamplerTest, DataOfOnePointIsFound) {
  const auto cpu = Device::Cpu();
  const Tensor point = RandomTensor(cpu, {1, 3, 3, 2}, DType::kF32, 1);
  const Tensor noise = RandomTensor(cpu, {2, 3, 3, 2}, DType::kF32, 2);
  const Tensor points = ConcatBatch({point, point});
  for (PredictionType type :
       {PredictionType::kEpsilon, PredictionType::kV, PredictionType::kSample}) {
    const NoiseSchedule schedule = Make(type);
    NoiseScheduleOptions as_sample = schedule.options();
    as_sample.prediction_type = PredictionType::kSample;
    const NoiseSchedule from_x0 = *NoiseSchedule::Create(as_sample);
    const PredictFn predict = [&](const Tensor& x_t, const Tensor& t) -> absl::StatusOr<Tensor> {
      const Tensor whole = WholeTimesteps(t);
      const Tensor eps = *PredictedNoise(from_x0, x_t, points, whole);
      return TrainingTarget(schedule, points, eps, whole);
    };
    for (const SamplerInfo& info : Samplers()) {
      // PNDM and LCM do not end at x0 in their last step.
      if (info.kind == SamplerKind::kPndm || info.kind == SamplerKind::kLcm) continue;
      if (type == PredictionType::kSample && !info.draws_from_x0) continue;
      for (double eta : {0.0, 1.0}) {
        SamplerOptions options;
        options.kind = info.kind;
        options.num_steps = 10;
        options.eta = eta;
        // The noise is known to 2^-24 / sqrt(abar), with abar >= 0.005, and then fades.
        ExpectClose(*Sample(schedule, options, noise, predict), points, {1e-5, 1e-5});
      }
    }
  }
}

// For data from N(0, s^2) the ideal predictor is linear:
//   x0 = x sqrt(abar) s^2 / (abar s^2 + 1 - abar).
// Each sampler then multiplies x by a factor in closed form (and DDPM adds variance).
class GaussianTest : public ::testing::Test {
 protected:
  static constexpr double kVariance = 0.25;
  static double Gain(double abar) {
    return std::sqrt(abar) * kVariance / (abar * kVariance + 1 - abar);
  }
  PredictFn Ideal() const {
    return [this](const Tensor& x, const Tensor& t) -> absl::StatusOr<Tensor> {
      Tensor x0 = x.Clone();
      const double gain = Gain(schedule_.alpha_cumprod(static_cast<int>(t.data<float>()[0])));
      for (float& v : x0.span<float>()) v = static_cast<float>(v * gain);
      return x0;
    };
  }
  NoiseSchedule schedule_ = Make(PredictionType::kSample);
  std::shared_ptr<Device> cpu_ = Device::Cpu();
};

TEST_F(GaussianTest, DdimFollowsTheClosedForm) {
  const Tensor noise = RandomTensor(cpu_, {1, 5}, DType::kF32, 3);
  SamplerOptions options;
  options.num_steps = 20;
  double factor = 1;
  for (int i = 19; i >= 0; --i) {
    const int t = 50 * i + 1;
    const double a = schedule_.alpha_cumprod(t), gain = Gain(a);
    const double next = i == 0 ? 1 : schedule_.alpha_cumprod(t - 50);
    const double eps = (1 - std::sqrt(a) * gain) / std::sqrt(1 - a);
    factor *= std::sqrt(next) * gain + std::sqrt(1 - next) * eps;
  }
  const std::vector<double> x = Values(*Sample(schedule_, options, noise, Ideal()));
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(x[i], factor * Values(noise)[i], 1e-5);
}

TEST_F(GaussianTest, DdpmDrawsFromTheData) {
  const Tensor noise = DrawNoise(cpu_, 1, 0, 0, {20, 1000}, RandomPurpose::kTest);
  SamplerOptions options;
  options.kind = SamplerKind::kDdpm;
  options.num_steps = 500;
  double square = 0;
  for (double v : Values(*Sample(schedule_, options, noise, Ideal()))) square += v * v / 20000;
  // Five standard deviations of the mean of 2e4 squares, and 2 % for steps of finite length.
  EXPECT_NEAR(square, kVariance, kVariance * (5 * std::sqrt(2 / 2e4) + 0.02));
}

// With eta = 1 DDIM's update is DDPM's (section 4.1 of arXiv 2010.02502) if both visit the same
// timesteps and end at abar = 1.
TEST_F(GaussianTest, DdimWithFullNoiseIsDdpm) {
  const Tensor noise = RandomTensor(cpu_, {2, 9}, DType::kF32, 4);
  SamplerOptions options;
  options.num_steps = 20;
  options.eta = 1;
  const Tensor ddim = *Sample(schedule_, options, noise, Ideal());
  options.kind = SamplerKind::kDdpm;
  ExpectClose(ddim, *Sample(schedule_, options, noise, Ideal()), {1e-5, 1e-5});
}

// Under the ideal predictor x follows
//   x(t) = x(T) sqrt((abar_t s^2 + 1 - abar_t) / (abar_T s^2 + 1 - abar_T)).
// DDIM's error is proportional to the length of its steps, DPM-Solver++'s to its square.
TEST_F(GaussianTest, DpmSolverFollowsTheExactPath) {
  NoiseScheduleOptions alike = schedule_.options();
  alike.timestep_spacing = TimestepSpacing::kLeading;  // the same for both, to compare them
  const NoiseSchedule schedule = *NoiseSchedule::Create(alike);
  const Tensor noise = Tensor::FromHost<float>(cpu_, {1, 1}, {1});
  const auto error = [&](SamplerKind kind, int num_steps) {
    SamplerOptions options;
    options.kind = kind;
    options.num_steps = num_steps;
    // Before the last step, at whose end there is no noise left to solve for.
    double before_last = 0;
    int timestep = 0;
    const std::vector<double> visited = *InferenceTimesteps(schedule, num_steps, kind);
    options.on_step = [&](int step, const Tensor& x) {
      if (step != num_steps - 2) return;
      before_last = x.data<float>()[0];
      timestep = static_cast<int>(visited[num_steps - 1]);
    };
    EXPECT_TRUE(Sample(schedule, options, noise, Ideal()).ok());
    const auto deviation = [&](int t) {
      const double a = schedule_.alpha_cumprod(t);
      return std::sqrt(a * kVariance + 1 - a);
    };
    return std::abs(before_last - deviation(timestep) / deviation(static_cast<int>(visited[0])));
  };
  for (int num_steps : {10, 40}) {
    EXPECT_LT(error(SamplerKind::kDpmSolver, num_steps), error(SamplerKind::kDdim, num_steps) / 8);
  }
}

TEST_F(GaussianTest, FreshNoiseBelongsToTheSample) {
  const Tensor noise = DrawNoise(cpu_, 1, 0, 0, {4, 7}, RandomPurpose::kTest);
  for (SamplerKind kind :
       {SamplerKind::kDdim, SamplerKind::kDdpm, SamplerKind::kEulerAncestral, SamplerKind::kLcm}) {
    SamplerOptions options;
    options.kind = kind;
    options.num_steps = 10;
    options.eta = 1;
    options.seed = 5;
    const Tensor all = *Sample(schedule_, options, noise, Ideal());
    options.first_sample = 2;
    ExpectSameBits(*Sample(schedule_, options, noise.Slice(2, 4), Ideal()), all.Slice(2, 4));
    options.seed = 6;
    EXPECT_NE(Values(*Sample(schedule_, options, noise.Slice(2, 4), Ideal())),
              Values(all.Slice(2, 4)));
  }
}

TEST_F(GaussianTest, StepsAreReportedAndErrorsPassedOn) {
  const Tensor noise = RandomTensor(cpu_, {1, 5}, DType::kF32, 3);
  SamplerOptions options;
  options.num_steps = 3;
  std::vector<int> seen;
  options.on_step = [&](int step, const Tensor& x) {
    seen.push_back(step);
    EXPECT_EQ(x.shape(), noise.shape());
  };
  ASSERT_TRUE(Sample(schedule_, options, noise, Ideal()).ok());
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
  const auto fails = [](const Tensor&, const Tensor&) -> absl::StatusOr<Tensor> {
    return absl::DataLossError("no model");
  };
  EXPECT_EQ(Sample(schedule_, options, noise, fails).status().message(), "no model");
}

TEST(GuidanceTest, ExtrapolatesFromUnconditionalToConditional) {
  const auto cpu = Device::Cpu();
  const Tensor x = Tensor::FromHost<float>(cpu, {2, 1}, {1, 2});
  const Tensor t = Tensor::FromHost<float>(cpu, {2}, {30, 40});
  const PredictFn predict = [&](const Tensor& xs, const Tensor& ts) -> absl::StatusOr<Tensor> {
    EXPECT_EQ(Values(xs), (std::vector<double>{1, 2, 1, 2}));
    EXPECT_EQ(Values(ts), (std::vector<double>{30, 40, 30, 40}));
    return Tensor::FromHost<float>(cpu, {4, 1}, {10, 20, 11, 24});
  };
  EXPECT_EQ(Values(*WithGuidance(predict, 3)(x, t)), (std::vector<double>{13, 32}));
}

TEST(GuidanceTest, ScaleOfOnePredictsOnlyThePrompt) {
  const auto cpu = Device::Cpu();
  const Tensor x = Tensor::FromHost<float>(cpu, {2, 1}, {1, 2});
  const Tensor t = Tensor::FromHost<float>(cpu, {2}, {30, 40});
  const PredictFn predict = [&](const Tensor& xs, const Tensor& ts) -> absl::StatusOr<Tensor> {
    EXPECT_EQ(Values(xs), (std::vector<double>{1, 2}));
    EXPECT_EQ(Values(ts), (std::vector<double>{30, 40}));
    return Tensor::FromHost<float>(cpu, {2, 1}, {11, 24});
  };
  EXPECT_EQ(Values(*WithGuidance(predict, 1)(x, t)), (std::vector<double>{11, 24}));
}

TEST(ClippingTest, PredictedX0IsClamped) {
  NoiseScheduleOptions config;
  config.prediction_type = PredictionType::kSample;
  config.set_alpha_to_one = true;
  config.clip_sample = true;
  config.clip_sample_range = 0.5;
  const NoiseSchedule schedule = *NoiseSchedule::Create(config);
  const auto cpu = Device::Cpu();
  const Tensor noise = Tensor::FromHost<float>(cpu, {1, 2}, {1, -1});
  const PredictFn large = [&](const Tensor&, const Tensor&) -> absl::StatusOr<Tensor> {
    return Tensor::FromHost<float>(cpu, {1, 2}, {9, -9});
  };
  SamplerOptions options;
  options.num_steps = 1;  // ends at abar = 1, at the clamped x0
  EXPECT_EQ(Values(*Sample(schedule, options, noise, large)), (std::vector<double>{0.5, -0.5}));
  options.kind = SamplerKind::kDpmSolver;
  EXPECT_EQ(Values(*Sample(schedule, options, noise, large)), (std::vector<double>{9, -9}));
}

}  // namespace
}  // namespace dpipe::diffusion
