// Compares schedules, noising and samplers with diffusers.
#include <cmath>
#include <cstring>
#include <set>

#include "core/base/files/file.h"
#include "core/ops/testing/op_testing.h"
#include "gmock/gmock.h"
#include "models/diffusion/noising.h"
#include "models/diffusion/sampler.h"
#include "models/diffusion/samplers/samplers.h"
#include "models/testdata/golden_check.h"
#include "nlohmann/json.hpp"

namespace dpipe::diffusion {
namespace {

using ops::Values;
using Json = nlohmann::json;

// diffusers computes betas and their products in fp32, this code in double. 1000 factors, each off
// by up to 2^-25, typically drift by 1e-6 and stay below 1e-5.
constexpr double kScheduleError = 1e-5;

class TinySdGoldenTest : public ::testing::Test {
 protected:
  std::shared_ptr<Device> cpu_ = Device::Cpu();
  models::Goldens goldens_{"tests/golden/tiny_sd.safetensors", cpu_};
  NoiseSchedule schedule_ = *NoiseSchedule::Create(
      *ParseSchedulerConfig(*ReadFile("data/tiny_sd/scheduler/scheduler_config.json")));
};

TEST_F(TinySdGoldenTest, Schedule) {
  const Tensor expected = goldens_.Get("schedule/alphas_cumprod");
  ASSERT_EQ(schedule_.num_timesteps(), 1000);
  for (int t = 0; t < 1000; ++t) {
    EXPECT_NEAR(schedule_.alpha_cumprod(t) / expected.data<float>()[t], 1, kScheduleError) << t;
  }
}

TEST_F(TinySdGoldenTest, MinSnrWeights) {
  Tensor all = Tensor::Empty(cpu_, {1000}, DType::kI32);
  for (int t = 0; t < 1000; ++t) all.data<int32_t>()[t] = t;
  NoiseScheduleOptions options = schedule_.options();
  for (const auto& [type, name] :
       {std::make_pair(PredictionType::kEpsilon, "schedule/min_snr_5_weight_epsilon"),
        std::make_pair(PredictionType::kV, "schedule/min_snr_5_weight_v")}) {
    options.prediction_type = type;
    // At the first timesteps 1 - abar is 1e-3, which multiplies fp32's error in abar by a thousand.
    ops::ExpectClose(*MinSnrWeights(*NoiseSchedule::Create(options), 5, all), goldens_.Get(name),
                     {1e-4, 0});
  }
}

TEST_F(TinySdGoldenTest, NoisingAndVelocity) {
  const Tensor x0 = goldens_.Get("unet/latent"), noise = goldens_.Get("unet/noise");
  const Tensor t = goldens_.Get("unet/timesteps");
  const ops::Tolerance tolerance = {kScheduleError, kScheduleError};
  ops::ExpectClose(*AddNoise(schedule_, x0, noise, t, DType::kF32), goldens_.Get("unet/noisy"),
                   tolerance);
  NoiseScheduleOptions options = schedule_.options();
  options.prediction_type = PredictionType::kV;
  ops::ExpectClose(*TrainingTarget(*NoiseSchedule::Create(options), x0, noise, t),
                   goldens_.Get("unet/v_target"), tolerance);
}

TEST_F(TinySdGoldenTest, Timesteps) {
  const Tensor expected = goldens_.Get("ddim/timesteps");
  EXPECT_EQ(*InferenceTimesteps(schedule_, 4), Values(expected));
}

Tensor ToTensor(const Json& values) {
  return Tensor::FromHost<float>(Device::Cpu(), {2, 4}, values.get<std::vector<float>>());
}

// The formula of testdata/make_sampler_goldens.py, which replaces a model.
absl::StatusOr<Tensor> Formula(const Tensor& x, const Tensor& timesteps) {
  Tensor prediction = x.Clone();
  const double shift = std::sin(timesteps.data<float>()[0] / 100.0);
  for (float& v : prediction.span<float>()) v = static_cast<float>(0.5 * v + shift);
  return prediction;
}

void ExpectSameTimesteps(const std::vector<double>& actual, const Json& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double t = expected[i];
    // Whole timesteps are equal. In diffusers the others come from fp32 logarithms of sigmas.
    EXPECT_NEAR(actual[i], t, t == std::floor(t) ? 1e-9 : 0.02) << i;
  }
}

void ExpectTrajectory(const Json& golden) {
  Json config = golden["config"];
  config["_class_name"] = golden["class"];
  const NoiseSchedule schedule = *NoiseSchedule::Create(*ParseSchedulerConfig(config.dump()));
  for (const Json& at : golden["alphas_cumprod"]) {
    EXPECT_NEAR(schedule.alpha_cumprod(at[0]), at[1].get<double>(), kScheduleError);
  }
  SamplerOptions options;
  options.kind = **ParseSampler(golden["sampler"].get<std::string>());
  EXPECT_EQ(SamplerOf(options.kind).classes[0], golden["class"].get<std::string>());
  EXPECT_THAT(KeysNotFollowed(schedule.options(), options.kind), ::testing::IsEmpty());
  options.num_steps = golden["steps"];
  const auto timesteps = InferenceTimesteps(schedule, options.num_steps, options.kind);
  ASSERT_TRUE(timesteps.ok()) << timesteps.status();
  ExpectSameTimesteps(*timesteps, golden["timesteps"]);
  options.fresh_noise = [&golden](int call, const Tensor&) {
    return ToTensor(golden["noise"][call]);
  };
  // Early steps divide by sqrt(abar), as small as 0.07, which multiplies the schedule's error.
  // Large values of x are rounded to 6e-8 of their size, in both programs and in every call.
  const ops::Tolerance tolerance = {5e-5 + 6e-8 * golden["largest"].get<double>(), 5e-5};
  options.on_step = [&](int call, const Tensor& x) {
    const Json& expected = golden["calls"][call];
    if (!expected.is_null()) ops::ExpectClose(x, ToTensor(expected), tolerance);
  };
  EXPECT_TRUE(Sample(schedule, options, ToTensor(golden["start"]), Formula).ok());
}

TEST(SamplerGoldenTest, EveryCallMatchesDiffusers) {
  const Json goldens = Json::parse(*ReadFile("models/diffusion/testdata/samplers.json"));
  std::set<std::string> samplers;
  for (const Json& golden : goldens["cases"]) {
    SCOPED_TRACE(golden["sampler"].dump() + " " + golden["config"].dump() + " in " +
                 golden["steps"].dump());
    ExpectTrajectory(golden);
    samplers.insert(golden["sampler"].get<std::string>());
  }
  EXPECT_EQ(samplers.size(), Samplers().size()) << "each has goldens";
}

}  // namespace
}  // namespace dpipe::diffusion
