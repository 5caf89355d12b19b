#include "models/diffusion/flow_matching.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/files/file.h"
#include "core/ops/testing/op_testing.h"
#include "nlohmann/json.hpp"

namespace dpipe::diffusion {
namespace {

using Json = nlohmann::json;
using ops::Values;

Json Goldens() { return Json::parse(*ReadFile("models/diffusion/testdata/flow.json")); }

Tensor ToTensor(const Json& values, const Shape& shape) {
  return Tensor::FromHost<float>(Device::Cpu(), shape, values.get<std::vector<float>>());
}

TEST(FlowMatchingTest, EulerStepsMatchDiffusers) {
  for (const Json& golden : Goldens()["cases"]) {
    const FlowSchedule schedule =
        *FlowSchedule::Create(*ParseFlowScheduleConfig(golden["text"].get<std::string>()));
    for (const Json& sampling : golden["samplings"]) {
      SCOPED_TRACE(golden["config"].dump() + sampling["steps"].dump());
      FlowSampleOptions options;
      std::optional<double> mu;
      if (!sampling["tokens"].is_null()) mu = schedule.Mu(sampling["tokens"]);
      options.levels =
          *schedule.SamplingLevels(sampling["steps"],
                                   sampling["spacing"] == "full" ? FlowSchedule::Spacing::kFull
                                                                 : FlowSchedule::Spacing::kTrained,
                                   mu);
      int calls = 0;
      options.on_step = [&](int call, const Tensor& x) {
        EXPECT_EQ(call, calls++);
        // Up to 28 steps, each with roundings of numbers of size 1 and of timesteps of 1000.
        ops::ExpectClose(x, ToTensor(sampling["calls"][call], {2, 4}), {3e-6, 3e-6});
      };
      const auto predict = [](const Tensor& x, const Tensor& timesteps) -> absl::StatusOr<Tensor> {
        Tensor prediction = x.Clone();
        const double shift = std::sin(timesteps.data<float>()[1] / 100.0);
        for (float& v : prediction.span<float>()) v = static_cast<float>(0.5 * v + shift);
        return prediction;
      };
      EXPECT_TRUE(SampleFlow(schedule, options, ToTensor(sampling["start"], {2, 4}), predict).ok());
      EXPECT_EQ(calls, sampling["steps"].get<int>());
    }
  }
}

// The path is straight: with the exact target as the prediction, one step of any length is exact.
TEST(FlowMatchingTest, TheTargetLeadsFromInputToData) {
  const auto cpu = Device::Cpu();
  const FlowSchedule schedule = *FlowSchedule::Create({});
  const Tensor x0 = ops::RandomTensor(cpu, {3, 5}, DType::kF32, 1);
  const Tensor noise = ops::RandomTensor(cpu, {3, 5}, DType::kF32, 2);
  const Tensor target = *FlowTarget(x0, noise);
  const Tensor levels = Tensor::FromHost<float>(cpu, {3}, {0, 0.25, 1});
  const Tensor x = *FlowInput(x0, noise, levels, DType::kF32);
  for (int64_t b = 0; b < 3; ++b) {
    const double s = levels.data<float>()[b];
    for (int64_t i = b * 5; i < (b + 1) * 5; ++i) {
      const double a = x0.data<float>()[i], n = noise.data<float>()[i];
      EXPECT_NEAR(x.data<float>()[i], (1 - s) * a + s * n, 1e-6);
      EXPECT_NEAR(target.data<float>()[i], n - a, 1e-6);
      EXPECT_NEAR(x.data<float>()[i] - s * target.data<float>()[i], a, 1e-6);
    }
  }
  EXPECT_TRUE(FlowInput(x0, noise, levels, DType::kBf16)->dtype() == DType::kBf16);
  FlowSampleOptions options;
  options.levels = {1, 0.3, 0};
  const auto exact = [&](const Tensor&, const Tensor&) -> absl::StatusOr<Tensor> { return target; };
  ops::ExpectClose(*SampleFlow(schedule, options, noise, exact), x0, {1e-6, 1e-6});
}

TEST(FlowMatchingTest, WeightsMatchDiffusers) {
  const Json goldens = Goldens();
  const int64_t count = static_cast<int64_t>(goldens["levels"].size());
  const Tensor levels = ToTensor(goldens["levels"], {count});
  for (const char* name : {"none", "sigma_sqrt", "cosmap"}) {
    ops::ExpectClose(*FlowWeights(*ParseFlowWeight(name), levels),
                     ToTensor(goldens["weights"][name], {count}), {5e-7, 0});
  }
  EXPECT_EQ(ParseFlowWeight("min_snr").status().message(),
            "unknown loss weight 'min_snr'; use none, sigma_sqrt or cosmap");
}

double NormalCdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// The inverse of mode's curve, which falls from 1 to 0, by bisection.
double ModeCdf(double scale, double u) {
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double v = (low + high) / 2, root = std::cos(M_PI * v / 2);
    (1 - v - scale * (root * root - 1 + v) > u ? low : high) = v;
  }
  return 1 - low;
}

// Kolmogorov and Smirnov's statistic sqrt(n) sup |F_n - F| of 20,000 draws, which is below 1.95
// with a probability of 99.9 %; and the mean and the variance, within four standard errors.
void ExpectDistribution(const FlowSamplingOptions& options,
                        const std::function<double(double)>& cdf) {
  constexpr int kDraws = 20000;
  const FlowLevels levels = *FlowLevels::Create(*FlowSchedule::Create({}), options);
  std::vector<double> drawn;
  double mean = 0, square = 0;
  for (int i = 0; i < kDraws; ++i) {
    drawn.push_back(levels.DrawDensity(7, 3, i));
    mean += drawn.back() / kDraws;
    square += drawn.back() * drawn.back() / kDraws;
  }
  std::sort(drawn.begin(), drawn.end());
  double distance = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double at = cdf(drawn[i]);
    distance = std::max({distance, std::abs(at - static_cast<double>(i) / kDraws),
                         std::abs(at - static_cast<double>(i + 1) / kDraws)});
  }
  EXPECT_LT(distance * std::sqrt(kDraws), 1.95);
  // E(u) is the integral of 1 - F, E(u^2) that of 2 u (1 - F).
  double exact_mean = 0, exact_square = 0;
  constexpr int kParts = 20000;
  for (int i = 0; i < kParts; ++i) {
    const double u = (i + 0.5) / kParts;
    exact_mean += (1 - cdf(u)) / kParts;
    exact_square += 2 * u * (1 - cdf(u)) / kParts;
  }
  EXPECT_NEAR(mean, exact_mean, 4 * std::sqrt((exact_square - exact_mean * exact_mean) / kDraws));
  EXPECT_NEAR(square, exact_square, 4 * std::sqrt(exact_square / kDraws));
}

TEST(FlowLevelsTest, DrawsFollowTheirDensities) {
  FlowSamplingOptions options;
  ExpectDistribution(options, [](double u) { return u; });
  options.density = FlowDensity::kLogitNormal;
  for (const auto& [mean, deviation] : {std::make_pair(0.0, 1.0), std::make_pair(-0.5, 1.5)}) {
    options.logit_mean = mean;
    options.logit_std = deviation;
    ExpectDistribution(options, [&, m = mean, d = deviation](double u) {
      return NormalCdf((std::log(u / (1 - u)) - m) / d);
    });
  }
  options.density = FlowDensity::kMode;
  for (const double scale : {1.29, -1.0, 0.0}) {
    options.mode_scale = scale;
    ExpectDistribution(options, [scale](double u) { return ModeCdf(scale, u); });
  }
}

// Levels are those of the schedule at floor(1000 u), then shifted; a sample's does not depend on
// the batch.
TEST(FlowLevelsTest, LevelsAreTheSchedulesThenShifted) {
  FlowScheduleOptions static_shift;
  static_shift.shift = 3;
  const FlowSchedule schedule = *FlowSchedule::Create(static_shift);
  FlowSamplingOptions options;
  options.density = FlowDensity::kMode;
  options.shift = 2;
  const FlowLevels levels = *FlowLevels::Create(schedule, options);
  const Tensor drawn = levels.Draw(Device::Cpu(), 1, 2, 10, 200);
  for (int b = 0; b < 200; ++b) {
    const double u = levels.DrawDensity(1, 2, 10 + b);
    const double s = 1 - std::floor(1000 * u) / 1000, by_three = 3 * s / (1 + 2 * s);
    EXPECT_NEAR(drawn.data<float>()[b], 2 * by_three / (1 + by_three), 1e-6);
  }
  ops::ExpectSameBits(levels.Draw(Device::Cpu(), 1, 2, 60, 5), drawn.Slice(50, 55));
  EXPECT_NE(Values(levels.Draw(Device::Cpu(), 1, 3, 10, 200)), Values(drawn));
  const Tensor timesteps = *FlowTimesteps(schedule, drawn);
  EXPECT_NEAR(timesteps.data<float>()[7], 1000 * drawn.data<float>()[7], 1e-4);
}

TEST(FlowLevelsTest, ProblemsAreNamed) {
  const FlowSchedule schedule = *FlowSchedule::Create({});
  const auto error = [&](auto change) {
    FlowSamplingOptions options;
    change(&options);
    return std::string(FlowLevels::Create(schedule, options).status().message());
  };
  EXPECT_EQ(error([](FlowSamplingOptions* o) { o->mode_scale = 2; }),
            "mode_scale is 2; expected a number from -1 to 1.75194");
  EXPECT_EQ(error([](FlowSamplingOptions* o) { o->logit_std = 0; }),
            "logit_mean 0, logit_std 0; expected a number and one above 0");
  EXPECT_EQ(error([](FlowSamplingOptions* o) { o->shift = -1; }),
            "shift is -1; expected a number above 0");
}

}  // namespace
}  // namespace dpipe::diffusion
