#include "models/diffusion/noise_levels.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::diffusion {
namespace {

// The power and the root of 7 move a position by less than this.
constexpr double kRounding = 1e-9;

// Three timesteps with abar = 0.9, 0.72 and 0.504.
NoiseSchedule Short() {
  NoiseScheduleOptions options;
  options.num_train_timesteps = 3;
  options.beta_schedule = BetaSchedule::kLinear;
  options.beta_start = 0.1;
  options.beta_end = 0.3;
  return *NoiseSchedule::Create(options);
}

TEST(KarrasNoiseLevelsTest, ByHand) {
  const std::vector<NoiseLevel> levels = KarrasNoiseLevels(Short(), 3);
  ASSERT_EQ(levels.size(), 3);
  const double max_sigma = std::sqrt(0.496 / 0.504), min_sigma = std::sqrt(0.1 / 0.9);
  EXPECT_NEAR(levels[0].sigma, max_sigma, 1e-12);
  // ((0.9920^(1/7) + 0.3333^(1/7)) / 2)^7, with roots 0.99886 and 0.85475: 0.92680^7.
  EXPECT_NEAR(levels[1].sigma, 0.58738, 1e-4);
  EXPECT_NEAR(levels[2].sigma, min_sigma, 1e-12);
  EXPECT_NEAR(levels[0].timestep, 2, kRounding);
  EXPECT_EQ(RoundedTimestep(levels[1].timestep), 1);  // with sigma 0.6236
  EXPECT_NEAR(levels[2].timestep, 0, kRounding);
}

TEST(KarrasNoiseLevelsTest, OneLevelIsTheLargest) {
  const std::vector<NoiseLevel> levels = KarrasNoiseLevels(Short(), 1);
  ASSERT_EQ(levels.size(), 1);
  EXPECT_NEAR(levels[0].sigma, std::sqrt(0.496 / 0.504), 1e-12);
  EXPECT_EQ(levels[0].timestep, 2);
}

TEST(KarrasNoiseLevelsTest, SigmasFallAndTimestepsAreNearThem) {
  for (BetaSchedule kind :
       {BetaSchedule::kLinear, BetaSchedule::kScaledLinear, BetaSchedule::kSquaredCosCapV2}) {
    for (bool rescale : {false, true}) {
      for (int num_timesteps : {1, 2, 37, 1000}) {
        NoiseScheduleOptions options;
        options.beta_schedule = kind;
        options.rescale_zero_terminal_snr = rescale;
        options.num_train_timesteps = num_timesteps;
        const NoiseSchedule schedule = *NoiseSchedule::Create(options);
        const std::vector<NoiseLevel> levels = KarrasNoiseLevels(schedule, 25);
        EXPECT_NEAR(levels.front().timestep, num_timesteps - 1, kRounding);
        EXPECT_NEAR(levels.back().timestep, 0, kRounding);
        for (size_t i = 0; i < levels.size(); ++i) {
          const double t = levels[i].timestep;
          ASSERT_TRUE(std::isfinite(levels[i].sigma));
          EXPECT_GE(levels[i].sigma * (1 + kRounding), SigmaAt(schedule, static_cast<int>(t)));
          if (t + 1 < num_timesteps) {
            EXPECT_LE(levels[i].sigma,
                      SigmaAt(schedule, static_cast<int>(t) + 1) * (1 + kRounding));
          }
          if (i == 0 || num_timesteps == 1) continue;
          EXPECT_LT(levels[i].sigma, levels[i - 1].sigma);
          EXPECT_LE(t, levels[i - 1].timestep);
        }
      }
    }
  }
}

TEST(ExponentialNoiseLevelsTest, RatiosAreEqual) {
  const NoiseSchedule schedule = *NoiseSchedule::Create(NoiseScheduleOptions());
  const std::vector<NoiseLevel> levels = ExponentialNoiseLevels(schedule, 5);
  ASSERT_EQ(levels.size(), 5);
  EXPECT_NEAR(levels[0].sigma, SigmaAt(schedule, 999), 1e-9);
  EXPECT_NEAR(levels[4].sigma, SigmaAt(schedule, 0), 1e-9);
  for (int i = 1; i < 4; ++i) {
    EXPECT_NEAR(levels[i].sigma * levels[i].sigma, levels[i - 1].sigma * levels[i + 1].sigma, 1e-9);
  }
}

TEST(SigmaBetweenTest, IsLinear) {
  const NoiseSchedule schedule = *NoiseSchedule::Create(NoiseScheduleOptions());
  EXPECT_EQ(SigmaBetween(schedule, 7), SigmaAt(schedule, 7));
  EXPECT_EQ(SigmaBetween(schedule, 999), SigmaAt(schedule, 999));
  EXPECT_NEAR(SigmaBetween(schedule, 7.25),
              0.75 * SigmaAt(schedule, 7) + 0.25 * SigmaAt(schedule, 8), 1e-12);
}

TEST(KarrasNoiseLevelsTest, PureNoiseIsFinite) {
  NoiseScheduleOptions options;
  options.rescale_zero_terminal_snr = true;
  const NoiseSchedule schedule = *NoiseSchedule::Create(options);
  ASSERT_EQ(schedule.alpha_cumprod(999), 0);
  EXPECT_NEAR(KarrasNoiseLevels(schedule, 2)[0].sigma, 4096, 1e-3);  // sqrt(2^24 - 1)
}

// With a first beta of 0 the first timestep has no noise.
TEST(KarrasNoiseLevelsTest, ASigmaOfZeroIsThere) {
  NoiseScheduleOptions options;
  options.beta_start = 0;
  const std::vector<NoiseLevel> levels = KarrasNoiseLevels(*NoiseSchedule::Create(options), 4);
  EXPECT_EQ(levels.back().sigma, 0);
  EXPECT_EQ(levels.back().timestep, 0);
}

}  // namespace
}  // namespace dpipe::diffusion
