#include "models/diffusion/samplers/samplers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::diffusion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

NoiseScheduleOptions Options(const std::string& json) {
  auto options = ParseSchedulerConfig(json);
  EXPECT_TRUE(options.ok()) << options.status();
  return *std::move(options);
}

TEST(ParseSamplerTest, Names) {
  EXPECT_EQ(*ParseSampler("dpm++"), SamplerKind::kDpmSolver);
  EXPECT_EQ(*ParseSampler("folder"), std::nullopt);
  for (const SamplerInfo& info : Samplers()) EXPECT_EQ(*ParseSampler(info.name), info.kind);
  EXPECT_EQ(ParseSampler("heun").status().message(),
            "unknown sampler 'heun'; there are folder (the scheduler of the model's folder), ddim, "
            "ddpm, dpm++, euler, euler_a, lcm, pndm, unipc");
}

TEST(ChooseSamplerTest, TheFoldersClassDecides) {
  for (const auto& [name, kind] :
       {std::pair("DDIMScheduler", SamplerKind::kDdim),
        {"DDPMScheduler", SamplerKind::kDdpm},
        {"DPMSolverMultistepScheduler", SamplerKind::kDpmSolver},
        {"EulerDiscreteScheduler", SamplerKind::kEuler},
        {"EulerAncestralDiscreteScheduler", SamplerKind::kEulerAncestral},
        {"LCMScheduler", SamplerKind::kLcm},
        {"PNDMScheduler", SamplerKind::kPndm},
        {"UniPCMultistepScheduler", SamplerKind::kUniPc}}) {
    const SamplerChoice choice =
        ChooseSampler(Options(std::string(R"({"_class_name": ")") + name + "\"}"));
    EXPECT_EQ(choice.kind, kind) << name;
    EXPECT_EQ(choice.note, "") << name;
  }
  EXPECT_EQ(ChooseSampler(Options("{}")).kind, SamplerKind::kDdim) << "no class";
}

TEST(ChooseSamplerTest, AClassWithoutASamplerIsNoted) {
  const SamplerChoice choice =
      ChooseSampler(Options(R"({"_class_name": "HeunDiscreteScheduler"})"));
  EXPECT_EQ(choice.kind, SamplerKind::kDdim);
  EXPECT_EQ(
      choice.note,
      "the folder's scheduler is a HeunDiscreteScheduler, which has no sampler here; pictures "
      "are drawn with ddim instead (there are ddim, ddpm, dpm++, euler, euler_a, lcm, pndm, "
      "unipc)");
  EXPECT_EQ(
      ChooseSampler(Options(R"({"_class_name": "HeunDiscreteScheduler"})"), SamplerKind::kEuler)
          .note,
      "");
}

// diffusers' PNDMScheduler rejects it, too.
TEST(ChooseSamplerTest, AnUnsupportedPredictionTypeIsNoted) {
  const SamplerChoice choice =
      ChooseSampler(Options(R"({"_class_name": "PNDMScheduler", "prediction_type": "sample"})"));
  EXPECT_EQ(choice.kind, SamplerKind::kDdim);
  EXPECT_THAT(choice.note, HasSubstr("pndm does not draw from a model with the prediction_type "
                                     "sample; pictures are drawn with ddim instead"));
}

TEST(KeysNotFollowedTest, EachWithItsValue) {
  const NoiseScheduleOptions options = Options(
      R"({"use_karras_sigmas": true, "use_lu_lambdas": true, "algorithm_type": "dpmsolver",
      "variance_type": "fixed_small", "solver_type": "bh2", "final_sigmas_type": "sigma_min",
      "lambda_min_clipped": -5.1})");
  EXPECT_THAT(KeysNotFollowed(options, SamplerKind::kDpmSolver),
              ElementsAre("algorithm_type is \"dpmsolver\"", "lambda_min_clipped is -5.1",
                          "use_lu_lambdas is true", "variance_type is \"fixed_small\""));
  EXPECT_THAT(KeysNotFollowed(options, SamplerKind::kDdim), IsEmpty());
  EXPECT_THAT(KeysNotFollowed(Options(R"({"variance_type": null})"), SamplerKind::kDdpm),
              IsEmpty());
  EXPECT_EQ(ChooseSampler(options, SamplerKind::kDpmSolver).note,
            "the sampler dpm++ does not follow these keys of scheduler_config.json: algorithm_type "
            "is \"dpmsolver\", lambda_min_clipped is -5.1, use_lu_lambdas is true and 1 more");
}

// As in every DPMSolver and SASolver folder that diffusers writes.
TEST(KeysNotFollowedTest, MinusInfinityIsADefault) {
  const NoiseScheduleOptions options =
      Options(R"({"_class_name": "DPMSolverMultistepScheduler", "lambda_min_clipped": -Infinity})");
  EXPECT_EQ(ChooseSampler(options).note, "");
}

TEST(MakeSolverTest, WrongValuesOfASamplersOwnKeysAreErrors) {
  const auto error = [](const std::string& json, SamplerKind kind, int num_steps = 10) {
    const NoiseSchedule schedule = *NoiseSchedule::Create(Options(json));
    return std::string(MakeSolver(kind, {&schedule, num_steps}).status().message());
  };
  EXPECT_EQ(error(R"({"solver_order": 4})", SamplerKind::kDpmSolver),
            "scheduler_config.json: 'solver_order' is 4, expected 1, 2 or 3");
  EXPECT_EQ(error(R"({"solver_order": 4})", SamplerKind::kUniPc),
            "scheduler_config.json: 'solver_order' is 4, expected 1, 2 or 3");
  EXPECT_EQ(error(R"({"skip_prk_steps": 1})", SamplerKind::kPndm),
            "scheduler_config.json: 'skip_prk_steps' is 1, expected true or false");
  EXPECT_EQ(error("{}", SamplerKind::kPndm, 3),
            "sampling in 3 steps; PNDM without skip_prk_steps needs 4 or more");
  EXPECT_EQ(error("{}", SamplerKind::kLcm, 60),
            "sampling in 60 steps; LCM allows 1 to 50, original_inference_steps of the scheduler's "
            "config");
  EXPECT_EQ(error(R"({"original_inference_steps": 2000})", SamplerKind::kLcm),
            "scheduler_config.json: original_inference_steps is 2000; the schedule has 1000 "
            "timesteps");
  for (const SamplerInfo& info : Samplers()) {
    EXPECT_THAT(error("{}", info.kind, 0), HasSubstr("sampling in 0 steps")) << info.name;
    EXPECT_THAT(error("{}", info.kind, 1001), HasSubstr("sampling in 1001 steps")) << info.name;
  }
}

}  // namespace
}  // namespace dpipe::diffusion
