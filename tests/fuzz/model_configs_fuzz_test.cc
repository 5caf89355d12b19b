// Damaged model_index.json and scheduler_config.json files, and deeply nested JSON.
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/tensor/tensor.h"
#include "gtest/gtest.h"
#include "models/clip_text/clip_text.h"
#include "models/controlnet/controlnet_config.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/sampler.h"
#include "models/diffusion/samplers/samplers.h"
#include "models/folder/model_index.h"
#include "models/folder/scheduler_file.h"
#include "models/mmdit/flux_transformer.h"
#include "models/mmdit/sd3_transformer.h"
#include "models/pixel_unet/pixel_unet_config.h"
#include "models/unet/unet_config.h"
#include "models/vae/vae_config.h"
#include "tests/fuzz/mutation.h"

namespace dpipe {
namespace {

std::vector<std::string> Tokens() {
  return {"{",
          "}",
          "[",
          "]",
          ":",
          ",",
          "\"",
          "null",
          "true",
          "-1",
          "1e400",
          "1e-300",
          "0",
          "NaN",
          "Infinity",
          "-Infinity",
          "\\ud800",
          "\xff",
          "1000000",
          "[1,2]",
          "\"leading\"",
          "\"trailing\"",
          "\"linspace\"",
          "\"use_karras_sigmas\":true,",
          "\"solver_order\":3,",
          "\"use_exponential_sigmas\":true,",
          "\"steps_offset\":1,",
          "\"sample\"",
          "\"v_prediction\"",
          "\"original_inference_steps\":1,",
          std::string(200, '[')};
}

std::string SchedulerConfig(const std::string& class_name, const std::string& more) {
  return absl::StrCat(
      R"({"_class_name": ")", class_name,
      R"(", "beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012,
      "num_train_timesteps": 1000, "prediction_type": "epsilon", "timestep_spacing": "linspace",
      "rescale_betas_zero_snr": false, "steps_offset": 1, "set_alpha_to_one": false)",
      more, "}");
}

// Draws two steps of the smallest batch. The result may be anything, including NaN.
void Draw(const diffusion::NoiseSchedule& schedule, diffusion::SamplerKind kind, int num_steps) {
  diffusion::SamplerOptions options;
  options.kind = kind;
  options.num_steps = num_steps;
  const Tensor noise = Tensor::FromHost<float>(Device::Cpu(), {1, 2}, {1, -1});
  const auto drawn = diffusion::Sample(
      schedule, options, noise,
      [](const Tensor& x, const Tensor&) -> absl::StatusOr<Tensor> { return x.Clone(); });
  if (drawn.ok()) {
    ASSERT_EQ(drawn->shape(), noise.shape());
  } else {
    ASSERT_FALSE(drawn.status().message().empty());
  }
}

TEST(ModelConfigsFuzzTest, DamagedSchedulerConfigsAreRefusedOrDraw) {
  fuzz::Material material;
  material.files = {
      SchedulerConfig("DPMSolverMultistepScheduler", R"(, "lambda_min_clipped": -Infinity,
          "solver_order": 2, "use_karras_sigmas": true, "final_sigmas_type": "zero")"),
      SchedulerConfig("PNDMScheduler", R"(, "skip_prk_steps": true, "trained_betas": null)"),
      SchedulerConfig("UniPCMultistepScheduler", R"(, "disable_corrector": [], "solver_order": 3)"),
      SchedulerConfig("LCMScheduler", R"(, "original_inference_steps": 50)"),
      SchedulerConfig("EulerDiscreteScheduler", R"(, "interpolation_type": "linear")")};
  material.tokens = Tokens();
  int64_t num_read = 0;
  const int64_t num_iterations = fuzz::NumIterations(2000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(48, i, 0, RandomPurpose::kTest);
    const std::string text = fuzz::DamagedFile(random, material);
    const std::string changed =
        models::ChangedSchedulerConfig(text, {diffusion::PredictionType::kV, true});
    const auto options = diffusion::ParseSchedulerConfig(text);
    EXPECT_EQ(diffusion::ParseSchedulerConfig(changed).ok() || !options.ok(), true)
        << "a change of the objective keeps the file sound";
    if (!options.ok()) {
      ASSERT_TRUE(absl::StartsWith(options.status().message(), "scheduler_config.json: "))
          << options.status();
      continue;
    }
    const auto schedule = diffusion::NoiseSchedule::Create(*options);
    if (!schedule.ok()) continue;
    ++num_read;
    const auto& samplers = diffusion::Samplers();
    Draw(*schedule, diffusion::ChooseSampler(*options).kind, /*num_steps=*/4);
    Draw(*schedule, samplers[fuzz::Below(random, samplers.size())].kind,
         static_cast<int>(1 + fuzz::Below(random, 20)));
  }
  EXPECT_GT(num_read, num_iterations / 100);
  EXPECT_LT(num_read, num_iterations);
  EXPECT_LT(fuzz::PeakMemoryMb(), fuzz::MemoryLimitMb());
}

TEST(ModelConfigsFuzzTest, DamagedIndexesAreRefusedOrRead) {
  fuzz::Material material;
  material.files = {ReadFile("data/tiny_sd/model_index.json").value()};
  material.tokens = Tokens();
  int64_t num_read = 0;
  const int64_t num_iterations = fuzz::NumIterations(3000);
  for (int64_t i = 0; i < num_iterations; ++i) {
    SCOPED_TRACE(i);
    RandomStream random(49, i, 0, RandomPurpose::kTest);
    const std::string text = fuzz::DamagedFile(random, material);
    const auto index = models::ParseModelIndex(text, "damaged.json");
    if (!index.ok()) {
      ASSERT_TRUE(absl::StartsWith(index.status().message(), "damaged.json")) << index.status();
      continue;
    }
    ++num_read;
    const std::string without = models::WithoutComponents(text, {"safety_checker", "vae"});
    const auto read = models::ParseModelIndex(without, "without.json");
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->components.count("vae"), 0u);
  }
  EXPECT_GT(num_read, num_iterations / 100);
  EXPECT_LT(num_read, num_iterations);
  EXPECT_LT(fuzz::PeakMemoryMb(), fuzz::MemoryLimitMb());
}

// Copying, printing and destroying a value recurse once per level. A file of a few hundred
// kilobytes must not exhaust the stack.
TEST(ModelConfigsFuzzTest, EveryReaderRefusesDeepNesting) {
  const std::vector<std::pair<const char*, std::function<absl::Status(const std::string&)>>>
      readers = {
          {"model index",
           [](const std::string& text) {
             return models::ParseModelIndex(text, "deep.json").status();
           }},
          {"scheduler",
           [](const std::string& text) { return diffusion::ParseSchedulerConfig(text).status(); }},
          {"U-Net",
           [](const std::string& text) {
             return models::ParseUNetConfig(text, "deep.json").status();
           }},
          {"VAE",
           [](const std::string& text) {
             return models::ParseVaeConfig(text, "deep.json").status();
           }},
          {"text encoder",
           [](const std::string& text) {
             return models::ParseClipTextConfig(text, "deep.json").status();
           }},
          {"FLUX",
           [](const std::string& text) {
             return models::ParseFluxTransformerConfig(text, "deep.json").status();
           }},
          {"Stable Diffusion 3",
           [](const std::string& text) {
             return models::ParseSd3TransformerConfig(text, "deep.json").status();
           }},
          {"ControlNet",
           [](const std::string& text) {
             return models::ParseControlNetConfig(text, "deep.json").status();
           }},
          {"new ControlNet",
           [](const std::string& text) {
             return models::ControlNetConfigOf(text, "deep.json", {16}).status();
           }},
          {"pixel U-Net",
           [](const std::string& text) {
             return models::ParsePixelUNetConfig(text, "deep.json").status();
           }},
      };
  for (const int depth : {200, 200000}) {
    const std::string nested = std::string(depth, '[') + std::string(depth, ']');
    const std::string text = absl::StrCat(R"({"_class_name": )", nested, "}");
    for (const auto& [name, read] : readers) {
      const absl::Status status = read(text);
      EXPECT_TRUE(absl::StrContains(status.message(), "more than 100 nested lists and objects"))
          << name << ": " << status;
    }
    EXPECT_EQ(models::ChangedSchedulerConfig(text, {diffusion::PredictionType::kV, true}), text);
  }
}

}  // namespace
}  // namespace dpipe
