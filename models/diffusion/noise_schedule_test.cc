#include "models/diffusion/noise_schedule.h"

#include <cmath>

#include "gtest/gtest.h"

namespace dpipe::diffusion {
namespace {

NoiseSchedule Make(const NoiseScheduleOptions& options) {
  absl::StatusOr<NoiseSchedule> schedule = NoiseSchedule::Create(options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *schedule;
}

TEST(NoiseScheduleTest, LinearByHand) {
  NoiseScheduleOptions options;
  options.num_train_timesteps = 3;
  options.beta_schedule = BetaSchedule::kLinear;
  options.beta_start = 0.1;
  options.beta_end = 0.3;
  const NoiseSchedule schedule = Make(options);
  EXPECT_NEAR(schedule.alpha_cumprod(0), 0.9, 1e-15);
  EXPECT_NEAR(schedule.alpha_cumprod(1), 0.9 * 0.8, 1e-15);
  EXPECT_NEAR(schedule.alpha_cumprod(2), 0.9 * 0.8 * 0.7, 1e-15);
  EXPECT_NEAR(schedule.snr(1), 0.72 / 0.28, 1e-13);
}

// Stable Diffusion's first and last beta, and the known last abar (0.0047 in diffusers).
TEST(NoiseScheduleTest, ScaledLinearOfStableDiffusion) {
  const NoiseSchedule schedule = Make({});
  EXPECT_NEAR(schedule.alpha_cumprod(0), 1 - 0.00085, 1e-15);
  EXPECT_NEAR(schedule.alpha_cumprod(999) / schedule.alpha_cumprod(998), 1 - 0.012, 1e-12);
  const double root = std::sqrt(0.00085) + (std::sqrt(0.012) - std::sqrt(0.00085)) * 500 / 999;
  EXPECT_NEAR(schedule.alpha_cumprod(500) / schedule.alpha_cumprod(499), 1 - root * root, 1e-12);
  EXPECT_NEAR(schedule.alpha_cumprod(999), 0.00466, 1e-5);
}

// If uncapped, abar telescopes to cos^2((t + s) / (1 + s) pi / 2) / cos^2(s / (1 + s) pi / 2).
TEST(NoiseScheduleTest, SquaredCosineHasItsClosedForm) {
  NoiseScheduleOptions options;
  options.num_train_timesteps = 100;
  options.beta_schedule = BetaSchedule::kSquaredCosCapV2;
  const NoiseSchedule schedule = Make(options);
  const auto f = [](double t) { return std::pow(std::cos((t + 0.008) / 1.008 * M_PI / 2), 2); };
  for (int t : {0, 10, 50, 90}) {
    EXPECT_NEAR(schedule.alpha_cumprod(t), f((t + 1) / 100.0) / f(0), 1e-12) << t;
  }
  EXPECT_NEAR(schedule.alpha_cumprod(99) / schedule.alpha_cumprod(98), 0.001, 1e-12);  // the cap
}

TEST(NoiseScheduleTest, SnrDecreases) {
  for (BetaSchedule kind :
       {BetaSchedule::kLinear, BetaSchedule::kScaledLinear, BetaSchedule::kSquaredCosCapV2}) {
    NoiseScheduleOptions options;
    options.beta_schedule = kind;
    for (bool rescale : {false, true}) {
      options.rescale_zero_terminal_snr = rescale;
      const NoiseSchedule schedule = Make(options);
      for (int t = 1; t < 1000; ++t) ASSERT_LT(schedule.snr(t), schedule.snr(t - 1)) << t;
    }
  }
}

TEST(NoiseScheduleTest, RescalingEndsInPureNoiseAndKeepsTheStart) {
  NoiseScheduleOptions options;
  const NoiseSchedule plain = Make(options);
  options.rescale_zero_terminal_snr = true;
  const NoiseSchedule rescaled = Make(options);
  EXPECT_EQ(rescaled.alpha_cumprod(999), 0);
  EXPECT_NEAR(rescaled.alpha_cumprod(0), plain.alpha_cumprod(0), 1e-15);
  // sqrt(abar) is mapped affinely.
  const auto share = [](const NoiseSchedule& s, int t) {
    const double first = std::sqrt(s.alpha_cumprod(0)), last = std::sqrt(s.alpha_cumprod(999));
    return (std::sqrt(s.alpha_cumprod(t)) - last) / (first - last);
  };
  EXPECT_NEAR(share(rescaled, 400), share(plain, 400), 1e-12);
}

TEST(NoiseScheduleTest, FinalAlpha) {
  NoiseScheduleOptions options;
  EXPECT_EQ(Make(options).final_alpha_cumprod(), Make(options).alpha_cumprod(0));
  options.set_alpha_to_one = true;
  EXPECT_EQ(Make(options).final_alpha_cumprod(), 1);
}

TEST(NoiseScheduleTest, ImpossibleOptionsAreErrors) {
  NoiseScheduleOptions options;
  options.num_train_timesteps = 0;
  EXPECT_EQ(NoiseSchedule::Create(options).status().message(),
            "a noise schedule of 0 timesteps; at least 1 is needed");
  options.num_train_timesteps = 10;
  options.beta_schedule = BetaSchedule::kLinear;
  options.beta_end = 1.5;
  EXPECT_FALSE(NoiseSchedule::Create(options).ok());
  options.beta_end = std::nan("");
  EXPECT_FALSE(NoiseSchedule::Create(options).ok());
}

TEST(CheckPredictionTest, PureNoiseCannotBePredicted) {
  NoiseScheduleOptions options;
  EXPECT_TRUE(CheckPrediction(options).ok());
  options.rescale_zero_terminal_snr = true;
  EXPECT_EQ(CheckPrediction(options).message(),
            "zero terminal SNR (rescale_betas_zero_snr) requires a prediction type of "
            "v_prediction or sample, not epsilon");
  options.prediction_type = PredictionType::kSample;
  EXPECT_TRUE(CheckPrediction(options).ok());
}

TEST(PredictionTypeTest, NamesAreReadBack) {
  for (const char* name : {"epsilon", "v_prediction", "sample"}) {
    const auto type = ParsePredictionType(name);
    ASSERT_TRUE(type.ok()) << type.status();
    EXPECT_STREQ(PredictionTypeName(*type), name);
  }
  EXPECT_NE(ParsePredictionType("v").status().message().find("epsilon, v_prediction and sample"),
            std::string::npos);
}

TEST(SchedulerConfigTest, ReadsStableDiffusions) {
  const NoiseScheduleOptions o = *ParseSchedulerConfig(R"({
    "_class_name": "DDIMScheduler", "beta_end": 0.012, "beta_schedule": "scaled_linear",
    "beta_start": 0.00085, "clip_sample": false, "num_train_timesteps": 500,
    "prediction_type": "v_prediction", "set_alpha_to_one": false, "skip_prk_steps": true,
    "steps_offset": 1, "trained_betas": null, "timestep_spacing": "trailing",
    "rescale_betas_zero_snr": true, "clip_sample_range": 2, "thresholding": false,
    "use_karras_sigmas": true})");
  EXPECT_EQ(o.num_train_timesteps, 500);
  EXPECT_EQ(o.beta_start, 0.00085);
  EXPECT_EQ(o.beta_end, 0.012);
  EXPECT_TRUE(o.beta_schedule == BetaSchedule::kScaledLinear);
  EXPECT_TRUE(o.prediction_type == PredictionType::kV);
  EXPECT_TRUE(o.timestep_spacing == TimestepSpacing::kTrailing);
  EXPECT_TRUE(o.use_karras_sigmas);
  EXPECT_TRUE(o.rescale_zero_terminal_snr);
  EXPECT_EQ(o.steps_offset, 1);
  EXPECT_FALSE(o.set_alpha_to_one);
  EXPECT_FALSE(o.clip_sample);
  EXPECT_EQ(o.clip_sample_range, 2);
}

TEST(SchedulerConfigTest, MissingKeysHaveDiffusersDefaults) {
  const NoiseScheduleOptions o = *ParseSchedulerConfig("{}");
  EXPECT_EQ(o.num_train_timesteps, 1000);
  EXPECT_EQ(o.beta_start, 0.0001);
  EXPECT_TRUE(o.beta_schedule == BetaSchedule::kLinear);
  EXPECT_TRUE(o.prediction_type == PredictionType::kEpsilon);
  EXPECT_TRUE(o.clip_sample);
  EXPECT_FALSE(o.timestep_spacing.has_value());
  EXPECT_FALSE(o.use_karras_sigmas);
  EXPECT_TRUE(o.set_alpha_to_one);
  EXPECT_EQ(o.steps_offset, 0);
}

TEST(SchedulerConfigTest, WrongValuesAreErrorsThatNameTheKey) {
  EXPECT_EQ(ParseSchedulerConfig("[]").status().message(),
            "scheduler_config.json: expected a JSON object {...}, found []");
  EXPECT_FALSE(ParseSchedulerConfig("{\"beta_start\": ").ok());
  EXPECT_EQ(ParseSchedulerConfig(R"({"beta_schedule": "sigmoid"})").status().message(),
            "scheduler_config.json: beta_schedule is \"sigmoid\"; expected linear or scaled_linear "
            "or squaredcos_cap_v2");
  EXPECT_EQ(ParseSchedulerConfig(R"({"beta_start": "x"})").status().message(),
            "scheduler_config.json: beta_start is \"x\"; expected a finite number");
  EXPECT_FALSE(ParseSchedulerConfig(R"({"num_train_timesteps": 1e3})").ok());
  EXPECT_FALSE(ParseSchedulerConfig(R"({"num_train_timesteps": 99999999999})").ok());
  EXPECT_FALSE(ParseSchedulerConfig(R"({"clip_sample": 1})").ok());
  EXPECT_EQ(ParseSchedulerConfig(R"({"use_karras_sigmas": "yes"})").status().message(),
            "scheduler_config.json: use_karras_sigmas is \"yes\"; expected true or false");
  EXPECT_FALSE(ParseSchedulerConfig(R"({"trained_betas": [0.1]})").ok());
  EXPECT_FALSE(ParseSchedulerConfig(R"({"thresholding": true})").ok());
}

}  // namespace
}  // namespace dpipe::diffusion
