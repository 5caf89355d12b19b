// Schedules, noising and DDIM against diffusers.
#include <cmath>
#include <cstring>

#include "core/base/file.h"
#include "core/ops/op_testing.h"
#include "models/diffusion/noising.h"
#include "models/diffusion/sampler.h"
#include "models/testdata/golden_check.h"
#include "nlohmann/json.hpp"

namespace dpipe::diffusion {
namespace {

using ops::Values;
using Json = nlohmann::json;

// diffusers makes betas and their products in fp32, ours are double: 1000 factors, each off by up
// to 2^-25, drift by 1e-6 typically and stay below 1e-5.
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
    // 1 - abar at the first timesteps is 1e-3: fp32's error in abar counts a thousand times there.
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
  const std::vector<int> timesteps = *InferenceTimesteps(schedule_, 4);
  EXPECT_EQ(std::vector<double>(timesteps.begin(), timesteps.end()), Values(expected));
}

Tensor ToTensor(const std::shared_ptr<Device>& device, const Json& values) {
  return Tensor::FromHost<float>(device, {2, 4}, values.get<std::vector<float>>());
}

// The formula of testdata/make_sampler_goldens.py in the place of a model.
absl::StatusOr<Tensor> Formula(const Tensor& x, const Tensor& timesteps) {
  Tensor prediction = x.Clone();
  const double shift = std::sin(timesteps.data<int32_t>()[0] / 100.0);
  for (float& v : prediction.span<float>()) v = static_cast<float>(0.5 * v + shift);
  return prediction;
}

void ExpectTrajectories(const char* path, size_t num_cases, SamplerKind kind) {
  const auto cpu = Device::Cpu();
  const Json goldens = Json::parse(*ReadFile(path));
  ASSERT_EQ(goldens["cases"].size(), num_cases);
  for (const Json& c : goldens["cases"]) {
    SCOPED_TRACE(c["config"].dump());
    const NoiseSchedule schedule =
        *NoiseSchedule::Create(*ParseSchedulerConfig(c["config"].dump()));
    for (const Json& at : c["alphas_cumprod"]) {
      EXPECT_NEAR(schedule.alpha_cumprod(at[0]), at[1].get<double>(), kScheduleError);
    }
    SamplerOptions options;
    options.kind = kind;
    options.num_steps = c["steps"];
    EXPECT_EQ(*InferenceTimesteps(schedule, options.num_steps, kind),
              c["timesteps"].get<std::vector<int>>());
    const Tensor end = *Sample(schedule, options, ToTensor(cpu, c["start"]), Formula);
    // Early steps divide by sqrt(abar), as small as 0.07, which multiplies the schedule's error.
    ops::ExpectClose(end, ToTensor(cpu, c["end"]), {5e-5, 5e-5});
  }
}

TEST(SamplerGoldenTest, DdimEndsWhereDiffusersEnds) {
  ExpectTrajectories("models/diffusion/testdata/ddim.json", 10, SamplerKind::kDdim);
}

TEST(SamplerGoldenTest, DpmSolverEndsWhereDiffusersEnds) {
  ExpectTrajectories("models/diffusion/testdata/dpm_solver.json", 11, SamplerKind::kDpmSolver);
}

TEST(SamplerGoldenTest, DpmSolverWithKarrasSigmasEndsWhereDiffusersEnds) {
  ExpectTrajectories("models/diffusion/testdata/dpm_solver_karras.json", 11,
                     SamplerKind::kDpmSolver);
}

}  // namespace
}  // namespace dpipe::diffusion
