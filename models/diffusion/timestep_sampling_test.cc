#include "models/diffusion/timestep_sampling.h"

#include <cmath>
#include <vector>

#include "core/ops/testing/op_testing.h"
#include "models/diffusion/draws.h"

namespace dpipe::diffusion {
namespace {

NoiseSchedule Linear() {
  NoiseScheduleOptions options;  // DDPM's
  options.beta_schedule = BetaSchedule::kLinear;
  options.beta_start = 1e-4;
  options.beta_end = 0.02;
  return *NoiseSchedule::Create(options);
}

TEST(TimestepSamplingTest, UniformMatchesDrawTimesteps) {
  const TimestepDistribution uniform(TimestepSampling::kUniform, Linear());
  ops::ExpectSameBits(uniform.Draw(Device::Cpu(), 1, 2, 10, 50),
                      DrawTimesteps(Device::Cpu(), 1, 2, 10, 50, 1000));
  EXPECT_EQ(uniform.Probability(7), 1e-3);
}

// With DDPM's betas, s(t) = sqrt(1 - abar_t) has the slope s' = abar_t beta_t / (2 s). It falls
// below 1e-4 between t = 650 and 750: abar_700 is about 0.0068, beta_700 0.014, s' about 5e-5.
TEST(TimestepSamplingTest, SpeedDrawsTheFlatEndAFifthAsOften) {
  const NoiseSchedule schedule = Linear();
  const TimestepDistribution speed(TimestepSampling::kSpeed, schedule);
  int border = 0;
  while (speed.Probability(border + 1) > 0.5 * speed.Probability(0)) ++border;
  EXPECT_GT(border, 550);
  EXPECT_LT(border, 750);
  const double abar = schedule.alpha_cumprod(border);
  EXPECT_NEAR(abar * (1e-4 + 0.0199 * border / 999) / (2 * std::sqrt(1 - abar)), 1e-4, 2e-6);
  double sum = 0;
  for (int t = 0; t < 1000; ++t) {
    sum += speed.Probability(t);
    EXPECT_NEAR(speed.Probability(t) * (t <= border ? 1 : 5), speed.Probability(0), 1e-12) << t;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(TimestepSamplingTest, SpeedDrawsMatchItsProbabilities) {
  const TimestepDistribution speed(TimestepSampling::kSpeed, Linear());
  constexpr int kDraws = 50000;
  const Tensor drawn = speed.Draw(Device::Cpu(), 7, 3, 0, kDraws);
  std::vector<int> counts(10, 0);
  for (int32_t t : drawn.span<int32_t>()) {
    ASSERT_TRUE(0 <= t && t < 1000);
    ++counts[t / 100];
  }
  for (int i = 0; i < 10; ++i) {
    double p = 0;
    for (int t = 100 * i; t < 100 * (i + 1); ++t) p += speed.Probability(t);
    EXPECT_NEAR(counts[i], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << i;
  }
  ops::ExpectSameBits(speed.Draw(Device::Cpu(), 7, 3, 20, 5), drawn.Slice(20, 25));
}

}  // namespace
}  // namespace dpipe::diffusion
